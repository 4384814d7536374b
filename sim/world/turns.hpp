// The scheduler's queue: threads that are awake, and those that sleep, by when they wake.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/memory/choice_source.hpp"

namespace penstock::sim {

struct Thread;

/// Costs little with thousands of threads, most of which sleep. Depends on nothing but the
/// choice source: a seed gives the same turns again.
class Turns {
 public:
  void add(Thread& thread);
  /// Awake or asleep.
  void remove(Thread& thread);
  /// Sleeps until the world's time is `wakes_ns`.
  void sleep(Thread& thread, std::uint64_t wakes_ns);
  void wake(Thread& thread);

  /// Any thread that is awake at `now_ns` and not stopped; nullptr for none.
  Thread* next(std::uint64_t now_ns, ChoiceSource& choices);
  /// When the first sleeper wakes; ~0 for none.
  std::uint64_t first_wake_ns() const {
    return asleep_.empty() ? ~0ull : asleep_.begin()->first.first;
  }

 private:
  std::vector<Thread*> awake_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Thread*> asleep_;  ///< by time and number
  std::size_t last_ = 0;
};

}  // namespace penstock::sim
