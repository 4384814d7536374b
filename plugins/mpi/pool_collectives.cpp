#include "pool_collectives.hpp"

#include "attachment.hpp"
#include "collective_choice.hpp"
#include "errors.hpp"
#include "pmpi.hpp"
#include "pool_comms.hpp"
#include "pool_requests.hpp"
#include "stayed.hpp"

namespace penstock::mpi {

namespace {

bool possible() {
  // The caller has searched for the MPI before; this returns that result.
  if (!find_mpi(nullptr)) return false;
  static const bool is = pool_is_named() && calls_in_pool() != 0;
  return is;
}

bool moves_data(CollectiveCall call) {
  return call != CollectiveCall::comm_dup && call != CollectiveCall::comm_create &&
         call != CollectiveCall::comm_split;
}

PoolComm* comm_for(const Asked& asked, Form form, MayWait may_wait) {
  if (!possible()) return nullptr;
  const auto stays = [&](Why why) {
    note_stayed(asked.call, why);
    return nullptr;
  };
  if (!is_taken(asked.call)) return moves_data(asked.call) ? stays(Why::call) : nullptr;
  if (!is_wanted(asked.call, form)) return stays(Why::setting);
  PoolComm* const comm = pool_comm(incoming(asked.words.back()), may_wait);
  return comm != nullptr ? comm : stays(Why::comm);
}

/// Leaves a call to the MPI, on all ranks of a communicator that the pool serves.
std::nullopt_t left_to_mpi(const Asked& asked, PoolComm& comm) {
  note_stayed(asked.call, Why::argument);
  comm.core->note_elsewhere(comm.queue->outstanding() == 0);
  return std::nullopt;
}

/// Prepares a call that begins later, and its schedule. `too_much`: see CollectiveArguments.
std::shared_ptr<CallTemplate> prepared(const Asked& asked, PoolComm& comm,
                                       std::optional<Error>& too_much) {
  auto made = std::make_shared<CallTemplate>();
  CollectiveArguments& arguments = made->arguments;
  if (!arguments.read(asked.call, {asked.words, asked.large}, comm.ranks(), comm.self())) {
    too_much = arguments.too_much();
    return nullptr;
  }
  if (!arguments.defer_reduction()) return nullptr;
  made->comm = comm.shared_from_this();
  made->name = asked.name;
  coll::Call call = arguments.call(asked.name);
  call.plan = comm.core->plan(*call.problem);
  auto schedule = comm.core->prepare(call);
  if (!schedule) return nullptr;
  made->schedule = *std::move(schedule);
  return made;
}

}  // namespace

std::optional<int> collective_in_pool(const Asked& asked) {
  PoolComm* const comm = comm_for(asked, Form::blocking, MayWait::yes);
  if (comm == nullptr) return std::nullopt;
  CollectiveArguments& arguments = comm->arguments;
  if (!arguments.read(asked.call, {asked.words, asked.large}, comm->ranks(), comm->self())) {
    if (const auto& why = arguments.too_much()) return raise_on_comm(comm->handle, *why);
    return left_to_mpi(asked, *comm);
  }
  arguments.load();
  coll::Call call = arguments.call(asked.name);
  call.plan = comm->core->plan(*call.problem);
  const auto done = comm->queue->run(call);
  if (!done && done.error().code == ErrorCode::invalid_argument) return left_to_mpi(asked, *comm);
  if (!done) return raise_on_comm(comm->handle, done.error());
  arguments.unload();
  return constants().success;
}

std::optional<int> nonblocking_in_pool(const Asked& asked, void* request) {
  PoolComm* const comm = comm_for(asked, Form::nonblocking, MayWait::no);
  if (comm == nullptr) return std::nullopt;
  std::optional<Error> too_much;
  const auto call = prepared(asked, *comm, too_much);
  if (too_much) return raise_on_comm(comm->handle, *too_much);
  if (call == nullptr) return left_to_mpi(asked, *comm);
  return begin_request(call, request);
}

std::optional<int> persistent_in_pool(const Asked& asked, void* request) {
  PoolComm* const comm = comm_for(asked, Form::nonblocking, MayWait::yes);
  if (comm == nullptr) return std::nullopt;
  std::optional<Error> too_much;
  const auto call = prepared(asked, *comm, too_much);
  if (too_much) return raise_on_comm(comm->handle, *too_much);
  if (call == nullptr) return std::nullopt;
  return make_persistent(call, request);
}

}  // namespace penstock::mpi
