// ncclAllReduce, ncclAllGather and the like, and their forms with a configuration. The
// configuration selects algorithms of NVIDIA's library and is ignored here.
#include "base/format.hpp"
#include "nccl/arguments.hpp"
#include "nccl/export.hpp"
#include "nccl/group.hpp"

namespace penstock::nccl {

namespace {

/// A call and the block lists that it points to.
struct Built {
  penstock_call_t call{};
  std::vector<penstock_block_t> input, output;

  Built(const char* name, penstock_collective_t collective, int root) {
    call.struct_bytes = sizeof call;
    call.name = name;
    call.collective = collective;
    call.root = static_cast<std::uint32_t>(root);
    call.max_is_known = 1;
  }
  Result run(ncclComm& comm, Stream stream) {
    call.input_blocks = input.data();
    call.input_count = static_cast<std::uint32_t>(input.size());
    call.output_blocks = output.data();
    call.output_count = static_cast<std::uint32_t>(output.size());
    return comm.run(call, stream);
  }
};

std::vector<penstock_block_t> blocks_of(std::uint64_t bytes, int count) {
  std::vector<penstock_block_t> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back({static_cast<std::uint64_t>(i) * bytes, bytes});
  return blocks;
}

const std::byte* at(const void* buffer, std::uint64_t offset) {
  return static_cast<const std::byte*>(buffer) + offset;
}

struct Arguments {
  const char* name;
  const void* send;
  void* receive;
  std::uint64_t count;
  int datatype;
  int operation = 0, root = 0;
  Comm comm = nullptr;
  Stream stream = nullptr;
};

/// True if the call is in place: `send` is this rank's own block of `receive`.
bool is_own_block(const Arguments& a, std::uint64_t bytes) {
  return a.send == at(a.receive, static_cast<std::uint64_t>(a.comm->rank) * bytes);
}

/// Fills in a gather. If the call is in place, the input is this rank's block of the output buffer.
void gather_into(Built& built, const Arguments& a, std::uint64_t bytes) {
  const auto rank = static_cast<std::size_t>(a.comm->rank);
  built.output = blocks_of(bytes, a.comm->ranks);
  built.input = {{0, bytes}};
  built.call.input = a.send;
  built.call.output = a.receive;
  if (!is_own_block(a, bytes)) return;
  built.input = {built.output[rank]};
  built.call.input = a.receive;
}

void scatter_from(Built& built, const Arguments& a, std::uint64_t bytes) {
  const auto rank = static_cast<std::size_t>(a.comm->rank);
  built.input = blocks_of(bytes, a.comm->ranks);
  built.output = {{0, bytes}};
  built.call.input = a.send;
  built.call.output = a.receive;
  if (a.receive != at(a.send, rank * bytes)) return;
  built.output = {built.input[rank]};
  built.call.output = const_cast<void*>(a.send);
}

Result copy(const Arguments& a, std::uint64_t bytes) {
  if (bytes == 0 || a.send == a.receive) return success;
  if (a.comm->gpu == nullptr) {
    std::copy_n(static_cast<const std::byte*>(a.send), bytes, static_cast<std::byte*>(a.receive));
    return success;
  }
  const cuda::Driver& driver = a.comm->gpu->driver();
  const gpu::Device::Scope scope(*a.comm->gpu);
  const auto copied =
      driver.check(driver.copy(reinterpret_cast<cuda::DevicePointer>(a.receive),
                               reinterpret_cast<cuda::DevicePointer>(a.send), bytes, a.stream),
                   "the root's own copy");
  return outcome(copied);
}

Result fill(Built& built, const Arguments& a, penstock_collective_t collective,
            std::uint64_t bytes) {
  const bool at_root = a.comm->rank == a.root;
  built.call.max_block_bytes = bytes;
  built.call.input = a.send;
  built.call.output = a.receive;
  switch (collective) {
    case PENSTOCK_ALLREDUCE:
      built.input = built.output = {{0, bytes}};
      return success;
    case PENSTOCK_REDUCE:
      built.input = {{0, bytes}};
      if (at_root) built.output = {{0, bytes}};
      if (!at_root) built.call.output = nullptr;
      return success;
    case PENSTOCK_BROADCAST:
      (at_root ? built.input : built.output) = {{0, bytes}};
      (at_root ? built.call.output : const_cast<void*&>(built.call.input)) = nullptr;
      return success;
    case PENSTOCK_ALLGATHER:
      gather_into(built, a, bytes);
      return success;
    case PENSTOCK_GATHER:
      built.input = {{0, bytes}};
      if (at_root) gather_into(built, a, bytes);
      if (!at_root) built.call.output = nullptr;
      return success;
    case PENSTOCK_SCATTER:
      built.output = {{0, bytes}};
      if (at_root) scatter_from(built, a, bytes);
      if (!at_root) built.call.input = nullptr;
      return success;
    case PENSTOCK_REDUCE_SCATTER:
      // In place, the result overwrites this rank's own block, which no other rank reads.
      built.input = blocks_of(bytes, a.comm->ranks);
      built.output = {{0, bytes}};
      return success;
    case PENSTOCK_ALLTOALL:
      built.input = built.output = blocks_of(bytes, a.comm->ranks);
      return success;
    default:
      return failed(internal_error, "an unknown collective");
  }
}

/// Errors: invalid_argument if a buffer that this rank sends from or receives into is null.
Result check_buffers(const Arguments& a, penstock_collective_t collective) {
  if (a.count == 0) return success;
  const bool at_root = a.comm->rank == a.root;
  const bool sends =
      at_root || (collective != PENSTOCK_BROADCAST && collective != PENSTOCK_SCATTER);
  const bool gets = at_root || (collective != PENSTOCK_REDUCE && collective != PENSTOCK_GATHER);
  if ((!sends || a.send != nullptr) && (!gets || a.receive != nullptr)) return success;
  return failed(invalid_argument, fmt::format("{}: the {} buffer is NULL", a.name,
                                              sends && a.send == nullptr ? "send" : "receive"));
}

/// Errors: invalid_argument if the buffer would exceed the address space.
Result check_count(const char* call, std::uint64_t count, int datatype, int blocks) {
  constexpr std::uint64_t most = std::uint64_t{1} << 47;
  if (count <= most / bytes_of(datatype) / static_cast<std::uint64_t>(blocks)) return success;
  return failed(invalid_argument, fmt::format("{}: {} elements of {} bytes, {} times", call, count,
                                              bytes_of(datatype), blocks));
}

/// Runs the collective as messages: not every version of the other library has these calls.
Result run_as_messages(const Arguments& a, penstock_collective_t collective) {
  const bool at_root = a.comm->rank == a.root;
  const std::uint64_t bytes = a.count * bytes_of(a.datatype);
  auto* const from = static_cast<std::byte*>(const_cast<void*>(a.send));
  auto* const to = static_cast<std::byte*>(a.receive);
  const auto root = static_cast<std::uint32_t>(a.root);
  std::vector<Transfer> all;
  for (int rank = 0; rank < a.comm->ranks; ++rank) {
    const auto peer = static_cast<std::uint32_t>(rank);
    const std::uint64_t at = peer * bytes;
    if (collective == PENSTOCK_ALLTOALL || (collective == PENSTOCK_SCATTER && at_root))
      all.push_back({true, peer, from + at, bytes, a.stream});
    if (collective == PENSTOCK_ALLTOALL || (collective == PENSTOCK_GATHER && at_root))
      all.push_back({false, peer, to + at, bytes, a.stream});
  }
  if (collective == PENSTOCK_GATHER) all.push_back({true, root, from, bytes, a.stream});
  if (collective == PENSTOCK_SCATTER) all.push_back({false, root, to, bytes, a.stream});
  return a.comm->transfer(all);
}

Result run_by_other(const Arguments& a, penstock_collective_t collective) {
  const OtherLibrary& by = *a.comm->library;
  OtherComm* const comm = a.comm->other;
  Result result = success;
  if (collective == PENSTOCK_ALLREDUCE)
    result = by.AllReduce(a.send, a.receive, a.count, a.datatype, a.operation, comm, a.stream);
  else if (collective == PENSTOCK_REDUCE)
    result = by.Reduce(a.send, a.receive, a.count, a.datatype, a.operation, a.root, comm, a.stream);
  else if (collective == PENSTOCK_REDUCE_SCATTER)
    result = by.ReduceScatter(a.send, a.receive, a.count, a.datatype, a.operation, comm, a.stream);
  else if (collective == PENSTOCK_BROADCAST)
    result = by.Broadcast(a.send, a.receive, a.count, a.datatype, a.root, comm, a.stream);
  else if (collective == PENSTOCK_ALLGATHER)
    result = by.AllGather(a.send, a.receive, a.count, a.datatype, comm, a.stream);
  else
    return run_as_messages(a, collective);
  return by.passed_on(result, a.name, comm);
}

Result check(const Arguments& a, penstock_collective_t collective, Built& built, Held& held) {
  Result checked = hold(a.name, a.comm, held);
  if (checked == success) checked = check_datatype(a.name, a.datatype);
  if (checked == success) checked = check_root(a.name, *a.comm, a.root);
  if (checked == success) checked = check_count(a.name, a.count, a.datatype, a.comm->ranks);
  if (checked == success) checked = check_buffers(a, collective);
  if (checked == success) checked = check_stream(a.name, *a.comm, a.stream);
  if (checked == success && collective >= PENSTOCK_REDUCE && a.comm->other == nullptr)
    checked = set_reduction(a.name, *a.comm, a.datatype, a.operation, built.call);
  return checked;
}

Result begin(const Arguments& a, penstock_collective_t collective) {
  return guarded(a.name, [&] {
    Held held;
    Built probe(a.name, collective, a.root);
    if (const Result checked = check(a, collective, probe, held); checked != success)
      return refused_in_group(checked);
    return in_group(a.comm, [a, collective, probe] {
      if (a.comm->other != nullptr) return run_by_other(a, collective);
      Built built = probe;
      const std::uint64_t bytes = a.count * bytes_of(a.datatype);
      if (const Result filled = fill(built, a, collective, bytes); filled != success) return filled;
      if (collective == PENSTOCK_BROADCAST && a.comm->rank == a.root)
        if (const Result copied = copy(a, bytes); copied != success) return copied;
      return built.run(*a.comm, a.stream);
    });
  });
}

}  // namespace

#define SEND_RECEIVE const void *send, void *receive, std::size_t count, int datatype

/// Defines the call and its form with a configuration.
#define PENSTOCK_NCCL_COLLECTIVE(name, collective, arguments, ...)                                \
  PENSTOCK_NCCL(Result, name, arguments(Comm comm, Stream stream)) {                              \
    return begin({#name, send, receive, count, datatype, __VA_ARGS__, comm, stream}, collective); \
  }                                                                                               \
  PENSTOCK_NCCL(Result, name##Config, arguments(Comm comm, Stream stream, const void*)) {         \
    return begin({#name "Config", send, receive, count, datatype, __VA_ARGS__, comm, stream},     \
                 collective);                                                                     \
  }

#define PLAIN(...) (SEND_RECEIVE, __VA_ARGS__)
#define WITH_ROOT(...) (SEND_RECEIVE, int root, __VA_ARGS__)
#define WITH_OPERATION(...) (SEND_RECEIVE, int operation, __VA_ARGS__)
#define WITH_BOTH(...) (SEND_RECEIVE, int operation, int root, __VA_ARGS__)

PENSTOCK_NCCL_COLLECTIVE(ncclAllReduce, PENSTOCK_ALLREDUCE, WITH_OPERATION, operation, 0)
PENSTOCK_NCCL_COLLECTIVE(ncclReduce, PENSTOCK_REDUCE, WITH_BOTH, operation, root)
PENSTOCK_NCCL_COLLECTIVE(ncclReduceScatter, PENSTOCK_REDUCE_SCATTER, WITH_OPERATION, operation, 0)
PENSTOCK_NCCL_COLLECTIVE(ncclBroadcast, PENSTOCK_BROADCAST, WITH_ROOT, 0, root)
PENSTOCK_NCCL_COLLECTIVE(ncclAllGather, PENSTOCK_ALLGATHER, PLAIN, 0, 0)
PENSTOCK_NCCL_COLLECTIVE(ncclAlltoAll, PENSTOCK_ALLTOALL, PLAIN, 0, 0)
PENSTOCK_NCCL_COLLECTIVE(ncclGather, PENSTOCK_GATHER, WITH_ROOT, 0, root)
PENSTOCK_NCCL_COLLECTIVE(ncclScatter, PENSTOCK_SCATTER, WITH_ROOT, 0, root)

PENSTOCK_NCCL(Result, ncclBcast,
              (void* buffer, std::size_t count, int datatype, int root, Comm comm, Stream stream)) {
  return begin({"ncclBcast", buffer, buffer, count, datatype, 0, root, comm, stream},
               PENSTOCK_BROADCAST);
}

namespace {

/// Sends or receives one message. `transfer` lacks only its peer and its bytes.
Result message(const char* name, Transfer transfer, std::uint64_t count, int datatype, int peer,
               Comm comm) {
  return guarded(name, [&] {
    Held held;
    Result checked = hold(name, comm, held);
    if (checked == success) checked = check_datatype(name, datatype);
    if (checked == success) checked = check_root(name, *comm, peer);
    if (checked == success) checked = check_count(name, count, datatype, 1);
    if (checked == success) checked = check_stream(name, *comm, transfer.stream);
    if (checked == success && count != 0 && transfer.data == nullptr)
      checked = failed(invalid_argument, fmt::format("{}: the buffer is NULL", name));
    if (checked != success) return refused_in_group(checked);
    transfer.peer = static_cast<std::uint32_t>(peer);
    transfer.bytes = count * bytes_of(datatype);
    return in_group(comm, transfer);
  });
}

}  // namespace

PENSTOCK_NCCL(Result, ncclSend,
              (const void* data, std::size_t count, int datatype, int peer, Comm comm,
               Stream stream)) {
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(data));
  return message("ncclSend", {.is_send = true, .data = bytes, .stream = stream}, count, datatype,
                 peer, comm);
}
PENSTOCK_NCCL(Result, ncclRecv,
              (void* data, std::size_t count, int datatype, int peer, Comm comm, Stream stream)) {
  return message("ncclRecv",
                 {.is_send = false, .data = static_cast<std::byte*>(data), .stream = stream}, count,
                 datatype, peer, comm);
}

}  // namespace penstock::nccl
