// The origin side of atomics. The owner of the memory performs all of them, so that they exclude
// each other without atomic instructions on the pool.
#include <rdma/fi_errno.h>

#include <cstring>

#include "ep.hpp"
#include "rma_origin.hpp"
#include "transport/iov.hpp"

namespace penstock::ofi {

namespace {

template <class Ioc>
std::uint64_t elements(const Ioc* list, std::size_t count) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) total += list[i].count;
  return total;
}

void gather(std::byte* to, const fi_ioc* list, std::size_t count, std::size_t size) {
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].count != 0) std::memcpy(to, list[i].addr, list[i].count * size);
    to += list[i].count * size;
  }
}

}  // namespace

/// True if the call is valid; sets the bytes of its operands.
bool RmaOrigin::check(const AtomicCall& call, std::uint64_t* bytes) const {
  const std::size_t size = atomic_size(call.form, call.op, call.type);
  const std::size_t most = transport::max_iov;
  if (size == 0 || call.remote_count > most || call.result_count > most ||
      call.operand_count > most || call.compare_count > most) {
    return false;
  }
  const std::uint64_t count = elements(call.remote, call.remote_count);
  if (count > max_atomic_bytes / size) return false;
  *bytes = count * size;
  const bool same_operands =
      !atomic_takes_operand(call.op) || elements(call.operand, call.operand_count) == count;
  const bool same_results =
      call.form == AtomicForm::write || elements(call.result, call.result_count) == count;
  const bool same_compares =
      call.form != AtomicForm::compare || elements(call.compare, call.compare_count) == count;
  return same_operands && same_results && same_compares;
}

/// Begins the part on one range of the target's memory. `from`: the range's offset in the call's
/// operands, in bytes.
void RmaOrigin::begin_atomic(Operation* operation, Peer peer, const AtomicCall& call,
                             const fi_rma_ioc& remote, std::uint64_t from,
                             const std::byte* operands, const std::byte* compares) {
  const std::size_t size = atomic_size(call.form, call.op, call.type);
  const std::uint64_t bytes = remote.count * size;
  const auto access = call.op == FI_ATOMIC_READ ? rma::remote_read : rma::remote_write;
  if (auto region = locate(peer, {nullptr, remote.addr, remote.key, bytes}, access); !region)
    return fail(operation, region.error());
  Part* part = make_part(operation, peer, {remote.addr, remote.key, 0, kind_of(Service::atomic)});
  if (part == nullptr) return fail(operation, {ErrorCode::internal, "out of memory"});
  AtomicRequest request{0,
                        static_cast<std::uint32_t>(remote.count),
                        static_cast<std::uint8_t>(call.form),
                        static_cast<std::uint8_t>(call.op),
                        static_cast<std::uint8_t>(call.type),
                        0};
  const std::uint64_t operand_bytes = atomic_takes_operand(call.op) ? bytes : 0;
  const std::uint64_t compare_bytes = call.form == AtomicForm::compare ? bytes : 0;
  std::byte* at = payload(part, sizeof request + operand_bytes + compare_bytes);
  if (at == nullptr) return end(part, FI_ENOMEM, 0);
  if (call.form != AtomicForm::write) {
    iovec results[transport::max_iov];
    for (std::size_t i = 0; i < call.result_count; ++i)
      results[i] = {call.result[i].addr, call.result[i].count * size};
    transport::iov_visit(results, static_cast<std::uint32_t>(call.result_count), from, bytes,
                         [&](std::byte* to, std::uint64_t length, std::uint64_t) {
                           part->receive_buffer[part->receive_buffer_count++] = {to, length};
                         });
    part->receive_buffer_bytes = bytes;
    request.id = await_answer(part);
  }
  std::memcpy(at, &request, sizeof request);
  if (operand_bytes != 0) std::memcpy(at + sizeof request, operands + from, operand_bytes);
  if (compare_bytes != 0)
    std::memcpy(at + sizeof request + operand_bytes, compares + from, compare_bytes);
  post(part, call.form == AtomicForm::write && (call.flags & delivery_flags) != 0);
}

ssize_t RmaOrigin::atomic(const AtomicCall& call) {
  std::uint64_t bytes = 0;
  if (!check(call, &bytes)) return -FI_EINVAL;
  Peer peer;
  if (const int failed = ep_.peer_for(call.peer, &peer)) return failed;
  const std::uint64_t flags = FI_ATOMIC | (call.form == AtomicForm::write ? FI_WRITE : FI_READ);
  Operation* operation = begin(flags, call.context, call.report);
  if (operation == nullptr) return -FI_ENOMEM;
  const std::size_t size = atomic_size(call.form, call.op, call.type);
  std::byte operands[max_atomic_bytes], compares[max_atomic_bytes];
  if (atomic_takes_operand(call.op)) gather(operands, call.operand, call.operand_count, size);
  if (call.form == AtomicForm::compare) gather(compares, call.compare, call.compare_count, size);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < call.remote_count; ++i) {
    begin_atomic(operation, peer, call, call.remote[i], done, operands, compares);
    done += call.remote[i].count * size;
  }
  part_ended(operation, 0, 0);
  return 0;
}

}  // namespace penstock::ofi
