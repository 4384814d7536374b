// A pool on which endpoints are opened, and the place of their table for the forger.
#pragma once

#include <cstdlib>

#include "fuzz/frozen_arena.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::fuzz {

struct EndpointWorld : FrozenArena {
  explicit EndpointWorld(coherence::Mode mode) : FrozenArena(mode), table(open_table(*arena)) {
    // Endpoints wait for peers that do not answer when they close: most of the time of an input.
    ::setenv("PENSTOCK_TIMEOUT_MS", "10", 1);
  }

  std::byte* high_water() const {
    return frozen.base() + (static_cast<const std::byte*>(table.high_water_line()) - frozen.base());
  }
  std::byte* line(std::uint64_t endpoint) const { return high_water() + 64 + 64 * endpoint; }
  /// Word of mailbox `owner` that endpoint `sender` writes.
  std::byte* word(std::uint32_t owner, std::uint32_t sender) const {
    return static_cast<std::byte*>(table.word(owner, sender));
  }

  transport::EndpointTable table;

 private:
  static transport::EndpointTable open_table(arena::Arena& arena) {
    const auto opened = transport::EndpointTable::open(arena);
    need(opened);
    return *opened;
  }
};

}  // namespace penstock::fuzz
