// Invariants of the mailbox tiles while no process makes any, for tests.
#pragma once

#include <set>
#include <string>

#include "base/format.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::transport {

/// Both copies of the state of a group's tiles.
inline TilesStates tiles_states(arena::Arena& arena, std::uint32_t group) {
  TilesStates states{};
  if (const auto head = arena.open(table_name))
    arena.pool().memory().observe_bulk(
        states.data(), head->data + sizeof(TableHeadLines) + sizeof states * group, sizeof states);
  return states;
}

/// Returns "" if each taken tile has one owner. First makes a tile of the last receiver in each
/// group, which also finishes what dead processes have begun. Call it without concurrent users.
inline std::string fault_of_tiles(arena::Arena& arena) {
  auto table = EndpointTable::open(arena);
  if (!table) return table.error().message;
  for (std::uint32_t sender = 0; sender < table->count(); sender += senders_a_tile)
    if (const auto last = table->words(table->count() - 1, sender); !last)
      return last.error().message;
  std::set<std::uint64_t> tiles;
  std::uint64_t entries = 0;
  const MailboxTiles& all = table->tiles();
  for (std::uint32_t owner = 0; owner < table->count(); ++owner)
    for (std::uint32_t group = 0; group < all.layout().groups(); ++group) {
      const auto entry = all.find({owner, group});
      if (!entry) continue;
      tiles.insert(TileEntry::offset(*entry));
      ++entries;
    }
  if (tiles.size() != entries) return "a tile has two owners";
  std::uint64_t taken = 0;
  for (std::uint32_t group = 0; group < all.layout().groups(); ++group) {
    const auto lines = tiles_states(arena, group);
    const TilesState* newest = nullptr;
    for (const auto& state : lines)
      if (state.checksum == checksum_of(state, table->key()) &&
          (newest == nullptr || state.number > newest->number))
        newest = &state;
    if (newest == nullptr) return "both states of the tiles are torn";
    taken += newest->taken;
    for (std::uint32_t piece = 0; piece + 1 < newest->pieces; ++piece)
      taken += arena.open(fmt::format("{}{}.{}", tiles_prefix, group, piece))->bytes / tile_bytes;
  }
  if (taken != entries) return fmt::format("{} tiles are taken, {} named", taken, entries);
  return "";
}

}  // namespace penstock::transport
