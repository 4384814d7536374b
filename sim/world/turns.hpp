// The scheduler's queue: threads that are awake, and those that sleep, by the time at which they
// wake.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/memory/choice_source.hpp"

namespace penstock::sim {

struct Thread;

/// Costs little with thousands of threads, most of which sleep. Depends only on the choice source:
/// a seed gives the same turns again.
class Turns {
 public:
  void add(Thread& thread);
  /// Removes a thread, awake or asleep.
  void remove(Thread& thread);
  /// Sleeps until the world's time is `wakes_ns`.
  void sleep(Thread& thread, std::uint64_t wakes_ns);
  void wake(Thread& thread);

  /// Returns a thread that is awake at `now_ns` and not stopped; nullptr if there is none.
  Thread* next(std::uint64_t now_ns, ChoiceSource& choices);
  /// The time at which the first sleeper wakes; ~0 if there is none.
  std::uint64_t first_wake_ns() const {
    return asleep_.empty() ? ~0ull : asleep_.begin()->first.first;
  }

 private:
  std::vector<Thread*> awake_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Thread*> asleep_;  ///< by time and number
  std::size_t last_ = 0;
};

}  // namespace penstock::sim
