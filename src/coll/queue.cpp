#include "coll/queue.hpp"

#include <utility>

#include "coll/prepared.hpp"

namespace penstock::coll {

Result<void> CallQueue::prepare(QueuedCall& call) {
  call.prepared = PENSTOCK_TRY(comm_.prepare(call.call));
  return {};
}

void CallQueue::push(std::shared_ptr<QueuedCall> call) {
  const std::lock_guard<std::mutex> guard(list_);
  calls_.push_back(std::move(call));
  outstanding_.store(calls_.size(), std::memory_order_release);
}

std::shared_ptr<QueuedCall> CallQueue::front() {
  const std::lock_guard<std::mutex> guard(list_);
  return calls_.empty() ? nullptr : calls_.front();
}

void CallQueue::finish(QueuedCall& call, std::optional<Error> error) {
  begun_ = false;
  call.error = std::move(error);
  const std::lock_guard<std::mutex> guard(list_);
  calls_.pop_front();
  outstanding_.store(calls_.size(), std::memory_order_release);
  call.over.store(true, std::memory_order_release);
}

/// After a failure, each later call fails as it begins, with the same error.
bool CallQueue::advance_in_turn() {
  bool moved = false;
  while (const std::shared_ptr<QueuedCall> call = front()) {
    if (!begun_) {
      if (auto begun = comm_.begin(call->call, *call->prepared); !begun) {
        finish(*call, std::move(begun.error()));
        moved = true;
        continue;
      }
      begun_ = true;
    }
    const std::uint64_t before = comm_.position();
    auto done = comm_.advance();
    if (done && !*done) return moved || comm_.position() != before;
    finish(*call, done ? std::nullopt : std::optional<Error>(std::move(done.error())));
    moved = true;
  }
  return moved;
}

bool CallQueue::advance(std::vector<std::uint32_t>* awaited) {
  const std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
  if (!turn) return false;
  const bool moved = advance_in_turn();
  // If nothing is outstanding, the communicator belongs to the caller again.
  if (awaited != nullptr && outstanding() != 0) *awaited = comm_.awaited();
  return moved;
}

void CallQueue::wait(const char* what, const std::function<bool()>& over) {
  constexpr int looks_at_once = 32;
  for (int look = 0; look < looks_at_once; ++look) {
    advance();
    if (over()) return;
  }
  std::vector<std::uint32_t> missing;
  bool ended = false;
  const auto look = [&] {
    if (ended) return missing.clear();  // do not call `over` again: it may have side effects
    const bool moved = outstanding() != 0 && advance(&missing);
    if (missing.empty() || outstanding() == 0) missing = {comm_.self()};
    ended = over();
    if (ended || moved) missing.clear();
  };
  // Each part of the call has its own wait, as in Communicator::run(). If a rank dies, the call
  // that waits for it fails; advance() finds that too.
  while (!ended) {
    missing = {comm_.self()};
    (void)comm_.wait(what, missing, look);
  }
}

void CallQueue::drain(const char* what) {
  wait(what, [this] { return outstanding() == 0; });
}

}  // namespace penstock::coll
