#include "sim/world/turns.hpp"

#include "sim/world/world.hpp"

namespace penstock::sim {

void Turns::add(Thread& thread) {
  thread.turn = awake_.size();
  awake_.push_back(&thread);
}

void Turns::remove(Thread& thread) {
  if (asleep_.erase({thread.wakes_ns, thread.number}) != 0) return;
  awake_[thread.turn] = awake_.back();
  awake_[thread.turn]->turn = thread.turn;
  awake_.pop_back();
}

void Turns::sleep(Thread& thread, std::uint64_t wakes_ns) {
  remove(thread);
  thread.wakes_ns = wakes_ns;
  asleep_.emplace(std::pair{wakes_ns, thread.number}, &thread);
}

void Turns::wake(Thread& thread) {
  remove(thread);
  thread.wakes_ns = 0;
  add(thread);
}

Thread* Turns::next(std::uint64_t now_ns, ChoiceSource& choices) {
  while (first_wake_ns() <= now_ns) wake(*asleep_.begin()->second);
  if (awake_.empty()) return nullptr;
  last_ = (last_ + 1 + choices.below(awake_.size())) % awake_.size();
  for (std::size_t looked = 0; looked < awake_.size(); ++looked) {
    Thread* thread = awake_[(last_ + looked) % awake_.size()];
    if (!thread->process->stopped) return thread;
  }
  return nullptr;
}

}  // namespace penstock::sim
