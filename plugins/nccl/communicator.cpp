#include "nccl/communicator.hpp"

#include <algorithm>
#include <cstring>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "nccl/channel.hpp"
#include "nccl/issue.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

/// Salts that derive the key of each of a communicator's meetings from its own key.
constexpr std::uint64_t of_core = 1, of_mail = 2, of_other = 3;

/// A rank's message address, exchanged in a meeting.
struct Place {
  penstock_address_t address{};
  std::uint64_t token = 0;
  MessageSlots::Offer slots;
};

struct ExchangeIn {
  Meeting meeting;
  Result result = success;
  std::string words = "";
};

int exchange(void* user, const void* mine, void* all, std::uint64_t bytes) {
  auto& in = *static_cast<ExchangeIn*>(user);
  in.result = in.meeting.exchange(mine, all, bytes);
  if (in.result != success) in.words = last_error();
  return in.result;
}

Result open_core(ncclComm& comm, const std::function<Result()>& goes_on) {
  ExchangeIn in{Meeting(comm.attached->pool(), derived_key(comm.key, of_core), comm.rank,
                        comm.ranks, goes_on)};
  penstock_comm_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = static_cast<std::uint32_t>(comm.rank);
  options.ranks = static_cast<std::uint32_t>(comm.ranks);
  options.name = comm.name.c_str();
  options.exchange = exchange;
  options.user = &in;
  options.gpu = comm.gpu != nullptr;
  const auto opened = penstock_comm_open(comm.attached->pool(), &options, &comm.core);
  if (in.result != success) return failed(in.result, in.words);
  return outcome(opened, "ncclCommInitRank");
}

/// Opens point-to-point messaging between the ranks.
Result open_mail(ncclComm& comm) {
  penstock_messenger_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = static_cast<std::uint32_t>(comm.rank);
  options.ranks = static_cast<std::uint32_t>(comm.ranks);
  options.name = comm.name.c_str();
  options.longest_unasked = Channel::longest_short;
  penstock_messenger_t* messenger = nullptr;
  const auto opened = penstock_messenger_open(comm.attached->pool(), &options, &messenger);
  Place own;
  if (opened == PENSTOCK_OK) penstock_messenger_address(messenger, &own.address);
  const Result failed_here = outcome(opened, "ncclCommInitRank");  // met below: the others wait
  own.token = penstock_comm_token(comm.core, static_cast<std::uint32_t>(comm.rank));
  auto slots = std::make_unique<MessageSlots>(comm.attached->pool(), comm.key, comm.rank,
                                              comm.ranks, comm.gpu != nullptr);
  own.slots = slots->own();
  std::vector<Place> all(static_cast<std::size_t>(comm.ranks));
  Meeting meeting(comm.attached->pool(), derived_key(comm.key, of_mail), comm.rank, comm.ranks,
                  [&comm] {
                    if (comm.aborted) return was_aborted();
                    return comm.still_all_there();
                  });
  const Result met = meeting.exchange(&own, all.data(), sizeof own);
  if (met != success || failed_here != success) {
    penstock_messenger_close(messenger);
    return met != success ? met : failed_here;
  }
  std::vector<penstock_address_t> addresses;
  std::vector<std::uint64_t> tokens;
  std::vector<MessageSlots::Offer> offers;
  for (const Place& place : all) {
    offers.push_back(place.slots);
    addresses.push_back(place.address);
    tokens.push_back(place.token);
  }
  slots->meet(std::move(offers), tokens);
  comm.mail = std::make_unique<PointToPoint>(messenger, options.rank, std::move(addresses), tokens,
                                             comm.gpu, std::move(slots));
  return success;
}

/// Takes the current GPU of this thread, unless the communicator has one. Without a driver, buffers
/// are host memory and calls block.
Result find_gpu(ncclComm& comm) {
  if (!cuda::driver()) return success;
  if (comm.gpu == nullptr) {
    auto device = gpu::Device::current();
    if (!device) return failed(unhandled_cuda_error, device.error().message);
    comm.gpu = *device;
  }
  comm.device = comm.gpu->number();
  return success;
}

/// Hands the communicator over to the library of PENSTOCK_NCCL_LOCAL if all ranks share a host.
Result hand_over(ncclComm& comm, const std::function<Result()>& goes_on) {
  const Result found = OtherLibrary::get(&comm.library);
  if (found != success || comm.library == nullptr || comm.gpu == nullptr) return found;
  Meeting meeting(comm.attached->pool(), derived_key(comm.key, of_other), comm.rank, comm.ranks,
                  goes_on);
  const Result made = make_other(*comm.library, meeting, comm.rank, comm.ranks, &comm.other);
  if (made == success && comm.other != nullptr)
    base::log(base::Level::info, "{} of {} ranks stays on this host, by {}", comm.name, comm.ranks,
              base::env_text("PENSTOCK_NCCL_LOCAL"));
  return made;
}

}  // namespace

namespace {

/// Opens collectives and messaging, or another library's communicator. The communicator's GPU is
/// current.
Result open_on_gpu(ncclComm& comm, const std::function<Result()>& goes_on) {
  if (const Result handed = hand_over(comm, goes_on); handed != success) return handed;
  if (comm.other != nullptr) return success;
  if (const Result opened = open_core(comm, goes_on); opened != success) return opened;
  if (const Result opened = open_mail(comm); opened != success) return opened;
  base::log(base::Level::info, "{} of {} ranks goes through pool {}, by Penstock's libnccl.so.2{}",
            comm.name, comm.ranks, comm.attached->spec(),
            comm.gpu == nullptr ? "; no GPU here: buffers are host memory" : "");
  return success;
}

Result open_all(ncclComm& comm, const std::function<Result()>& goes_on) {
  if (const Result found = find_gpu(comm); found != success) return found;
  if (comm.gpu == nullptr) return open_on_gpu(comm, goes_on);
  const gpu::Device::Scope scope(*comm.gpu);
  return open_on_gpu(comm, goes_on);
}

/// Gives up all meetings of the communicator, so that no rank waits for this one.
void give_up(const ncclComm& comm) {
  const std::string why = last_error();
  for (const std::uint64_t salt : {of_core, of_mail, of_other})
    Meeting(comm.attached->pool(), derived_key(comm.key, salt), comm.rank, comm.ranks).give_up(why);
}

}  // namespace

Result open_comm(ncclComm& comm, const Making& making) {
  comm.rank = making.rank;
  comm.ranks = making.ranks;
  comm.key = making.key;
  comm.gpu = making.gpu;
  comm.name = making.name.empty() ? "NCCL communicator" : making.name;
  comm.attached = making.attached;
  Venue venue;
  if (comm.attached == nullptr) {
    Result there = accept(making.invitation, making.rank, making.ranks, comm.aborted, venue);
    if (there == success)
      there = Attached::get(venue.spec, venue.key, making.rank, making.ranks, comm.attached);
    if (there != success) return there;
    comm.key = venue.key;
  }
  const auto goes_on = [&] {
    if (comm.aborted) return was_aborted();
    if (making.goes_on) return making.goes_on();
    const auto refusal = venue.root != nullptr ? venue.root->refusal(making.invitation.key)
                                               : refusal_of(making.invitation);
    return refusal ? failed(remote_error, "ncclCommInitRank: " + *refusal) : success;
  };
  const Result opened = open_all(comm, goes_on);
  if (opened != success) give_up(comm);
  comm.opened = opened == success;
  return opened;
}

Result make_comm(const Making& making, Comm* made) {
  const auto comm = std::make_shared<ncclComm>();
  const Result opened = open_comm(*comm, making);
  if (opened == success) *made = comm->hand_out();
  return opened;
}

Result hold(const char* call, Comm comm, Held& held) {
  if (const Result checked = hold_handle(call, comm, held); checked != success) return checked;
  if (comm->opened) return success;
  return failed(invalid_argument, fmt::format("{}: the communicator is not made yet: use it when "
                                              "ncclCommGetAsyncError has reported ncclSuccess",
                                              call));
}

Result hold_handle(const char* call, Comm comm, Held& held) {
  if (comm != nullptr && comm->magic == ncclComm::alive_magic) {
    if (!comm->origin.here())
      return failed(
          invalid_usage,
          fmt::format("{}: the communicator belongs to the process that this one was forked "
                      "from: a child must make its own",
                      call));
    held = comm->weak_from_this().lock();
    if (held != nullptr) return success;
  }
  return failed(invalid_argument,
                fmt::format("{}: {}", call,
                            comm == nullptr ? "the communicator is NULL"
                                            : "the communicator is destroyed, or none of ours"));
}

}  // namespace penstock::nccl

namespace nccl = penstock::nccl;

bool ncclComm::posts(bool waits) const {
  return !blocks && (waits || !opened || gpu == nullptr || !tasks.is_idle());
}

nccl::Result ncclComm::begin(std::function<nccl::Result()> call, bool waits) {
  if (!posts(waits)) {
    tasks.await();  // a blocking communicator has tasks while it is split into non-blocking ones
    return call();
  }
  if (const nccl::Result state = tasks.state();
      state != nccl::success && state != nccl::in_progress)
    return state;
  tasks.post(std::move(call));
  return nccl::in_progress;
}

nccl::Result ncclComm::run(const penstock_call_t& call, nccl::Stream stream) {
  const InCall in(*this);
  const std::lock_guard<std::mutex> turn(turn_);
  if (aborted) return nccl::was_aborted();
  if (gpu != nullptr) {
    const penstock::gpu::Device::Scope scope(*gpu);  // a default stream is that of this GPU
    return nccl::outcome(penstock_comm_enqueue(core, &call, stream), call.name);
  }
  penstock_call_t blocking = call;
  blocking.cancelled = &cancelled;
  return nccl::outcome(penstock_comm_run(core, &blocking), call.name);
}

nccl::Result ncclComm::transfer(const std::vector<nccl::Transfer>& transfers) {
  const InCall in(*this);
  if (aborted) return nccl::was_aborted();
  if (other != nullptr) return transfer_by_other(transfers);
  return gpu != nullptr ? nccl::begin_together({{this, transfers}}) : mail->carry(transfers);
}

nccl::Result ncclComm::transfer_by_other(const std::vector<nccl::Transfer>& transfers) {
  constexpr int bytes_type = 0;  // ncclInt8
  nccl::Result result = library->GroupStart();
  for (const nccl::Transfer& t : transfers) {
    if (result != nccl::success) break;
    const int peer = static_cast<int>(t.peer);
    result = t.is_send ? library->Send(t.data, t.bytes, bytes_type, peer, other, t.stream)
                       : library->Recv(t.data, t.bytes, bytes_type, peer, other, t.stream);
  }
  const nccl::Result ended = library->GroupEnd();
  return library->passed_on(result != nccl::success ? result : ended, "a message", other);
}

nccl::Result ncclComm::finish() {
  const InCall in(*this);
  if (aborted) return nccl::was_aborted();
  if (other != nullptr)
    return library->passed_on(library->CommFinalize(other), "ncclCommFinalize", other);
  if (const nccl::Result drained = nccl::outcome(penstock_comm_drain(core), "ncclCommFinalize");
      drained != nccl::success)
    return drained;
  mail->drain();
  return health();
}

nccl::Result ncclComm::still_all_there(const std::vector<int>& excluded) const {
  if (core == nullptr) return nccl::success;  // another library carries it
  for (int r = 0; r < ranks; ++r) {
    if (std::find(excluded.begin(), excluded.end(), r) != excluded.end()) continue;
    char who[256] = "";
    const auto token = penstock_comm_token(core, static_cast<std::uint32_t>(r));
    if (penstock_pool_alive(attached->pool(), token, who, sizeof who) == 0)
      return nccl::failed(nccl::remote_error, fmt::format("{}", who));
  }
  return nccl::success;
}

nccl::Result ncclComm::error() {
  const InCall in(*this);
  const nccl::Result state = tasks.state();
  if (state == nccl::in_progress || (state != nccl::success && !aborted)) return state;
  if (!aborted && !opened)
    return nccl::failed(nccl::invalid_usage,
                        "the communicator was not made: the group that it belongs to has failed");
  return health();
}

/// The first error of messages and collectives that run asynchronously on a GPU.
nccl::Result ncclComm::health() {
  if (other != nullptr && !aborted) {
    nccl::Result found = nccl::success;
    const nccl::Result asked = library->CommGetAsyncError(other, &found);
    return library->passed_on(asked != nccl::success ? asked : found, "a collective", other);
  }
  if (aborted) return nccl::was_aborted();
  if (const auto words = mail->error()) return nccl::failed(nccl::remote_error, *words);
  return nccl::outcome(penstock_comm_error(core), "");
}

nccl::Comm ncclComm::hand_out() {
  of_handle_ = shared_from_this();
  return this;
}

std::shared_ptr<ncclComm> ncclComm::let_go() {
  return magic.exchange(0) == alive_magic ? std::exchange(of_handle_, nullptr) : nullptr;
}
