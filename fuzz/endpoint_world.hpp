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

  std::byte* line(std::uint32_t endpoint) const { return table.line_of(endpoint); }
  /// The line of words that everybody writes, and what leads to the tiles of a mailbox.
  std::byte* box(std::uint32_t owner) const { return table.tiles().box(owner); }
  /// Word of mailbox `owner` that endpoint `sender` writes; null: there is none.
  std::byte* word(std::uint32_t owner, std::uint32_t sender) const {
    return table.find_word(owner, sender);
  }
  /// The same, made if there is none.
  std::byte* make_word(std::uint32_t owner, std::uint32_t sender) {
    const auto words = table.words(owner, sender);
    return words ? static_cast<std::byte*>(words->announcement) : nullptr;
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
