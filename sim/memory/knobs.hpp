// How nasty the memory is. Chances are per operation, in 1/1000.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/memory/chooser.hpp"

namespace penstock::sim {

struct Knobs {
  std::uint32_t deliver = 250;     ///< a buffered store or write-back reaches the device
  std::uint32_t evict = 40;        ///< a cached line is dropped, written back first if dirty
  std::uint32_t prefetch = 40;     ///< a line is fetched that nobody asked for
  std::uint32_t drop_early = 300;  ///< an invalidation takes effect before `settle`, not at it
  std::uint32_t tear = 300;        ///< a line leaves, or is read, in parts
  std::uint32_t keep = 0;          ///< a line that was published stays, as after a write-back
  std::uint32_t stored = 0;        ///< send_line is a plain store and a write-back, with a gap
  std::uint32_t switching = 150;   ///< another process runs next (scheduler only)
  bool whole_lines = false;        ///< a line published at once arrives at once
  bool lazy_order = true;          ///< `order` puts a barrier into the buffer and waits for nothing
  std::uint32_t max_delay = 400;   ///< operations that a store stays buffered at most
  bool hold_unordered = false;     ///< a store that no fence follows stays buffered for ever
  std::uint64_t op_ns = 100;       ///< virtual time that an operation takes, about
  bool same_speed = false;         ///< in all moods
  // devices that are not as they should be
  bool whole_line_words = false;       ///< a word that is published takes its line along, as it was
  bool idle_write_back = false;        ///< a write-back sends nothing
  bool loads_pass_full_order = false;  ///< it is no more than `order`
  bool bulk_passes_order = false;      ///< payload may come after what `order` put behind it
  bool seals_come_first = false;       ///< the last word of a sealed line before the others

  /// Another temperament for each seed: bugs that need a copy to stay show where nothing is ever
  /// evicted, others where everything is. Groce et al., "Swarm testing" (2012).
  Knobs in_the_mood_of(std::uint64_t seed) const {
    RandomChooser mood(seed ^ 0x6d00d);
    Knobs knobs = *this;
    const auto vary = [&mood](std::uint32_t& chance) {
      constexpr std::uint32_t factors[] = {0, 1, 1, 3};
      chance = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(900, std::uint64_t{chance} * factors[mood.below(4)]));
    };
    vary(knobs.deliver);
    vary(knobs.evict);
    vary(knobs.prefetch);
    vary(knobs.drop_early);
    vary(knobs.tear);
    vary(knobs.switching);
    constexpr std::uint32_t keeping[] = {0, 0, 300, 1000};
    knobs.keep = keeping[mood.below(4)];
    knobs.max_delay = static_cast<std::uint32_t>(1 + mood.below(2 * knobs.max_delay));
    knobs.hold_unordered = mood.below(4) == 0;
    constexpr std::uint64_t speeds[] = {100, 100, 5'000, 100'000};
    const std::uint64_t speed = speeds[mood.below(4)];
    if (!same_speed) knobs.op_ns = speed;
    knobs.lazy_order = lazy_order && mood.below(4) != 0;
    knobs.stored = keeping[mood.below(4)];
    return knobs;
  }
};

}  // namespace penstock::sim
