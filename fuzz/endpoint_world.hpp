// A pool on which endpoints are opened, with the place of their table for the forger.
#pragma once

#include <cstdlib>

#include "fuzz/frozen_arena.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::fuzz {

struct EndpointWorld : FrozenArena {
  explicit EndpointWorld(coherence::Mode mode) : FrozenArena(mode), table(open_table(*arena)) {
    // At its close an endpoint waits for peers that do not answer: that would be most of an input's
    // time.
    ::setenv("PENSTOCK_TIMEOUT_MS", "10", 1);
  }

  std::byte* line(std::uint32_t endpoint) const { return table.line_of(endpoint); }
  /// The line of words that all senders write, and the entries that lead to the tiles of a mailbox.
  std::byte* box(std::uint32_t owner) const { return table.tiles().box(owner); }
  /// The word in mailbox `owner` that endpoint `sender` writes; null if there is none.
  std::byte* word(std::uint32_t owner, std::uint32_t sender) const {
    return table.find_word(owner, sender);
  }
  /// The same; makes the word if there is none.
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
