// How adverse the memory is. Chances are for each operation, in 1/1000.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/memory/choice_source.hpp"

namespace penstock::sim {

struct FaultModel {
  std::uint32_t deliver = 250;     ///< a buffered store or write-back reaches the device
  std::uint32_t evict = 40;        ///< a cached line is dropped, written back first if dirty
  std::uint32_t prefetch = 40;     ///< a line is fetched without a request
  std::uint32_t drop_early = 300;  ///< an invalidation takes effect before `load_fence`, not at it
  std::uint32_t tear = 300;        ///< a line leaves, or is read, in parts
  std::uint32_t keep = 0;          ///< a published line stays in the cache, as after a write-back
  std::uint32_t stored = 0;        ///< send_line is a plain store and a write-back, with a gap
  std::uint32_t switching = 150;   ///< another process runs next (scheduler only)
  bool whole_lines = false;        ///< a line that is published whole arrives whole
  bool lazy_store_fence =
      true;  ///< `store_fence` puts a barrier into the buffer and waits for nothing
  std::uint32_t max_delay = 400;    ///< the most operations for which a store stays buffered
  bool hold_unordered = false;      ///< a store without a later fence stays buffered for ever
  std::uint64_t op_ns = 100;        ///< approximate virtual time of an operation
  std::uint64_t yield_ns = 50'000;  ///< virtual time of a yield
  bool same_speed = false;          ///< equal in all swarm configurations
  /// If not 0, each thread has its own core, and its operations take no time from the others. At a
  /// fence it waits this long for accesses to the device, and `line_ns` for each line.
  std::uint64_t device_ns = 0, line_ns = 0;
  // faulty devices
  bool whole_line_words = false;       ///< publishing a word also writes the rest of its line, with
                                       ///< old contents
  bool idle_write_back = false;        ///< a write-back writes nothing
  bool loads_pass_full_fence = false;  ///< full_fence orders no more than `store_fence`
  bool bulk_passes_store_fence = false;  ///< payload may arrive after stores that `store_fence` put
                                         ///< behind it
  bool tags_arrive_first = false;  ///< the last word of a tagged line arrives before the others

  /// A different model for each seed: some bugs need a copy to stay and show only if nothing is
  /// ever evicted, others only if everything is. Groce et al., "Swarm testing" (2012).
  FaultModel swarm_of(std::uint64_t seed) const {
    RandomChoices swarm(seed ^ 0x6d00d);
    FaultModel faults = *this;
    const auto vary = [&swarm](std::uint32_t& chance) {
      constexpr std::uint32_t factors[] = {0, 1, 1, 3};
      chance = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(900, std::uint64_t{chance} * factors[swarm.below(4)]));
    };
    vary(faults.deliver);
    vary(faults.evict);
    vary(faults.prefetch);
    vary(faults.drop_early);
    vary(faults.tear);
    vary(faults.switching);
    constexpr std::uint32_t keeping[] = {0, 0, 300, 1000};
    faults.keep = keeping[swarm.below(4)];
    faults.max_delay = static_cast<std::uint32_t>(1 + swarm.below(2 * faults.max_delay));
    faults.hold_unordered = swarm.below(4) == 0;
    constexpr std::uint64_t speeds[] = {100, 100, 5'000, 100'000};
    const std::uint64_t speed = speeds[swarm.below(4)];
    if (!same_speed) faults.op_ns = speed;
    faults.lazy_store_fence = lazy_store_fence && swarm.below(4) != 0;
    faults.stored = keeping[swarm.below(4)];
    return faults;
  }
};

}  // namespace penstock::sim
