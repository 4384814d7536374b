// Processes that are stopped (SIGSTOP) at one of their operations.
#pragma once

#include <cstdint>

#include "sim/world/world.hpp"

namespace penstock::sim {

/// The process is stopped at the operation that is so many further.
inline void stop_at(Process& process, std::uint64_t operation) {
  process.stops_at = process.operations + operation;
}
/// The process is stopped at one of its next `operations`.
inline void stop_within(World& world, Process& process, std::uint64_t operations) {
  stop_at(process, 1 + world.random() % operations);
}
/// The process that calls it.
inline void stop_within(World& world, std::uint64_t operations) {
  stop_within(world, world.self(), operations);
}

inline bool was_stopped(const Process& process) {
  return process.operations >= process.stops_at;
}
inline void never_stop(Process& process) {
  process.stops_at = ~0ull;
}
inline void go_on(Process& process) {
  never_stop(process);
  process.stopped = false;
}

/// The process that makes it is stopped at one of its next `operations`, unless it ends before.
class StopWithin {
 public:
  StopWithin(World& world, std::uint64_t operations) : process_(world.self()) {
    stop_within(world, operations);
  }
  ~StopWithin() { never_stop(process_); }
  StopWithin(const StopWithin&) = delete;
  StopWithin& operator=(const StopWithin&) = delete;

 private:
  Process& process_;
};

}  // namespace penstock::sim
