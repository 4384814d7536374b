// What must hold of the tiles of all mailboxes when nobody makes any, for tests.
#pragma once

#include <set>
#include <string>

#include "base/format.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::transport {

/// Empty when each tile that is taken has one owner. Makes one that the last receiver and sender
/// share, if there is none: whatever the dead have left undone is done with it.
inline std::string fault_of_tiles(arena::Arena& arena) {
  auto table = EndpointTable::open(arena);
  if (!table) return table.error().message;
  const auto last = table->words(table->count() - 1, table->count() - 1);
  if (!last) return last.error().message;
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
  const auto head = arena.open(table_name);
  if (!head) return head.error().message;
  TableHeadLines lines;
  arena.pool().memory().observe_bulk(&lines, head->data, sizeof lines);
  const TilesState* newest = nullptr;
  for (const auto& state : lines.tiles)
    if (state.checksum == checksum_of(state, table->key()) &&
        (newest == nullptr || state.number > newest->number))
      newest = &state;
  if (newest == nullptr) return "both states of the tiles are torn";
  std::uint64_t taken = newest->taken + (newest->pieces > 0 ? first_tiles : 0);
  for (std::uint32_t piece = 0; piece + 1 < newest->pieces; ++piece)
    taken += arena.open(fmt::format("{}{}", tiles_prefix, piece))->bytes / tile_bytes;
  if (taken != entries) return fmt::format("{} tiles are taken, {} named", taken, entries);
  return "";
}

}  // namespace penstock::transport
