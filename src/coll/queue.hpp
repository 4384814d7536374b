// Nonblocking collective calls wait in a queue. Any thread may drive it: one that waits for one of
// the calls, one that waits for something else, or one with no other work. Calls run one at a time,
// in the order in which they were made, which is the same on all ranks. Protocol:
// docs/protocols/collectives.md, "Nonblocking calls".
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

/// A call and its schedule. The caller keeps its buffers and its arithmetic alive until it is over.
struct QueuedCall {
  Call call;
  std::shared_ptr<const Prepared> prepared;
  std::optional<Error> error;     ///< set before `over`; nullopt: success
  std::atomic<bool> over{false};  ///< no thread touches its buffers any more
};

/// The calls of one rank on one communicator. Threads: one at a time for push() and run(), like
/// collectives; any number for advance() and wait().
///
///     auto call = std::make_shared<QueuedCall>(Call{.name = "sum", .problem = &problem, ...});
///     PENSTOCK_TRY(queue.prepare(*call));
///     queue.push(call);
///     queue.wait("sum", [&] { return call->over.load(); });
class CallQueue {
 public:
  explicit CallQueue(Communicator& comm) : comm_(comm) {}

  /// Prepares the call. Errors: invalid_argument, those of build(); nothing was queued, and all
  /// ranks fail alike. All other errors are reported by the call itself.
  Result<void> prepare(QueuedCall& call);
  /// Queues a prepared call.
  void push(std::shared_ptr<QueuedCall> call);
  /// Communicator::run(), after all outstanding calls.
  Result<void> run(const Call& call) {
    if (outstanding() != 0) [[unlikely]]
      drain(call.name);
    return comm_.run(call);
  }

  /// Progresses as far as possible without waiting, unless another thread does. Returns true if a
  /// call has progressed.
  bool advance() { return outstanding() != 0 && advance(nullptr); }
  /// Advances, and waits like Group::wait(), until `over` returns true. Does not call `over` again.
  void wait(const char* what, const std::function<bool()>& over);
  /// Waits until nothing is outstanding.
  void drain(const char* what);
  std::size_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }

 private:
  /// `awaited`: the ranks that the call in progress waits for.
  bool advance(std::vector<std::uint32_t>* awaited);
  bool advance_in_turn();
  std::shared_ptr<QueuedCall> front();
  void finish(QueuedCall& call, std::optional<Error> error);

  Communicator& comm_;
  std::mutex list_;  ///< guards calls_
  std::deque<std::shared_ptr<QueuedCall>> calls_;
  /// If 0, only the caller's thread touches the communicator.
  std::atomic<std::size_t> outstanding_{0};
  std::mutex turn_;  ///< guards the communicator while calls are outstanding
  bool begun_ = false;
};

}  // namespace penstock::coll
