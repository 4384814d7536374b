// Collective calls that do not block: each waits its turn in a queue, which whoever has time
// drives: a thread that waits for one of them, one that waits for something else, or one that does
// nothing else. One call after the other, in the order in which they were made, which is the same
// on all ranks. Protocol: docs/protocols/collectives.md, "Nonblocking calls".
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "coll/communicator.hpp"

namespace penstock::coll {

/// A call that was made, and the schedule that it needs. Its buffers and its arithmetic stay until
/// it is over: whoever makes it keeps them with it.
struct QueuedCall {
  Call call;
  std::shared_ptr<const Prepared> prepared;
  std::optional<Error> error;     ///< once it is over
  std::atomic<bool> over{false};  ///< nobody touches its buffers any more
};

/// The calls of one rank on one communicator. push() and run() are called by one thread at a time,
/// as collectives are; advance() and wait() by any number of threads.
///
///     auto call = std::make_shared<QueuedCall>(Call{.name = "sum", .problem = &problem, ...});
///     PENSTOCK_TRY(queue.push(call));
///     queue.wait("sum", [&] { return call->over.load(); });
class CallQueue {
 public:
  explicit CallQueue(Communicator& comm) : comm_(comm) {}

  /// Errors: invalid_argument, those of build(): then nothing was queued, and on all ranks alike.
  /// Every other error is the call's own.
  Result<void> prepare(QueuedCall& call);
  /// A call that was prepared.
  void push(std::shared_ptr<QueuedCall> call);
  /// Communicator::run() behind all that is outstanding.
  Result<void> run(const Call& call) {
    if (outstanding() != 0) [[unlikely]]
      drain(call.name);
    return comm_.run(call);
  }

  /// Goes on as far as it comes without a wait, unless another thread does. True when it has moved.
  bool advance() { return outstanding() != 0 && advance(nullptr); }
  /// Advances, and waits as Group::wait, until `over` is true, after which it is not asked again.
  void wait(const char* what, const std::function<bool()>& over);
  /// Until nothing is outstanding.
  void drain(const char* what);
  std::size_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }

 private:
  /// `awaited`: the ranks that the call in progress waits for.
  bool advance(std::vector<std::uint32_t>* awaited);
  bool advance_in_turn();
  std::shared_ptr<QueuedCall> front();
  void finish(QueuedCall& call, std::optional<Error> error);

  Communicator& comm_;
  std::mutex list_;  ///< of calls_
  std::deque<std::shared_ptr<QueuedCall>> calls_;
  /// Zero: no thread but the caller's touches the communicator.
  std::atomic<std::size_t> outstanding_{0};
  std::mutex turn_;  ///< of the communicator, while calls are outstanding
  bool begun_ = false;
};

}  // namespace penstock::coll
