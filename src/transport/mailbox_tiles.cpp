#include "transport/mailbox_tiles.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/checked.hpp"
#include "base/format.hpp"

namespace penstock::transport {
namespace {

/// A tile of which more lines than this are in use counts as wholly used: so a tile is changed
/// three times at most, each under the pool's lock.
constexpr int lines_one_by_one = 2;
/// Pieces of tiles double up to 2^8 times the first, 8 MiB.
constexpr std::uint64_t first_piece_bytes = 32 << 10;
constexpr std::uint32_t doublings = 8;

std::uint64_t bytes_of_piece(std::uint32_t number) {
  return first_piece_bytes << std::min(number, doublings);
}

std::string name_of_piece(std::uint32_t number) {
  return fmt::format("{}{}", tiles_prefix, number);
}

std::uint32_t with_line(std::uint32_t lines, std::uint32_t line) {
  const std::uint32_t more = lines | 1u << line;
  return std::popcount(more) > lines_one_by_one ? TileEntry::lines_bits : more;
}

bool has_line(std::uint64_t entry, std::uint32_t line) {
  return (TileEntry::lines(entry) >> line & 1) != 0;
}

}  // namespace

MailboxTiles::MailboxTiles(arena::Arena& arena, std::byte* head, std::byte* body,
                           const TableLayout& layout, std::uint64_t key)
    : arena_(&arena),
      memory_(arena.pool().memory()),
      head_(reinterpret_cast<TableHeadLines*>(head)),
      body_(body),
      layout_(layout),
      key_(key) {}

std::uint64_t MailboxTiles::sealed(std::uint64_t offset, std::uint32_t lines,
                                   TilePlace place) const {
  return TileEntry::sealed(offset, lines, key_, place.owner, place.group);
}

std::optional<std::uint64_t> MailboxTiles::tile_of(std::uint64_t entry, TilePlace place) const {
  const std::uint64_t offset = TileEntry::offset(entry);
  if (!TileEntry::is_whole(entry, key_, place.owner, place.group)) return std::nullopt;
  if (arena_->pool().at(offset, tile_bytes) == nullptr) return std::nullopt;
  return offset;
}

std::optional<std::uint64_t> MailboxTiles::find(TilePlace place) const {
  const std::uint64_t entry = memory_.observe_word(entry_at(place));
  if (!tile_of(entry, place)) return std::nullopt;
  return entry;
}

Result<std::uint64_t> MailboxTiles::reach(TilePlace place, std::uint32_t line,
                                          std::uint64_t timeout_ns) {
  if (const auto entry = find(place); entry && has_line(*entry, line)) return *entry;
  for (;;) {
    std::uint32_t wanted = 0;
    {
      const auto guard = PENSTOCK_TRY(arena_->pool().lock(timeout_ns));
      const Read read = read_state();
      if (read.whole) finish(read.state);
      if (const auto entry = find(place)) {
        if (has_line(*entry, line)) return *entry;
        const std::uint64_t more =
            sealed(TileEntry::offset(*entry), with_line(TileEntry::lines(*entry), line), place);
        enter(place, more);
        return more;
      }
      if (read.whole)
        if (const auto entry = take(read.state, place, line)) return *entry;
      wanted = read.whole ? read.state.pieces : PENSTOCK_TRY(first_unused_piece());
    }
    PENSTOCK_TRY(add_piece(wanted, timeout_ns));
  }
}

/// A line that is torn is that of a writer that died: the other one is as it was before.
MailboxTiles::Read MailboxTiles::read_state() const {
  std::array<TilesState, 2> states;
  memory_.observe_bulk(states.data(), head_->tiles, sizeof states);
  Read newest;
  for (const TilesState& state : states) {
    const bool inside =
        state.piece_offset % tile_bytes == 0 && state.taken <= state.piece_tiles &&
        arena_->pool().at(state.piece_offset, tile_bytes * state.piece_tiles) != nullptr;
    if (state.checksum != checksum_of(state, key_) || !inside) continue;
    if (!newest.whole || state.number > newest.state.number) newest = {state, true};
  }
  return newest;
}

void MailboxTiles::write(TilesState state) {
  state.checksum = checksum_of(state, key_);
  arena_->pool().confirm();
  memory_.publish_line(&head_->tiles[0], &state);
  memory_.store_fence();  // before an entry names the tile: no other gets it any more
  // Who is late with the first, and given up, is not with both: one of them is always the latest.
  arena_->pool().confirm();
  memory_.publish_line(&head_->tiles[1], &state);
}

/// Whoever took the last tile may have died before it wrote the entry.
void MailboxTiles::finish(const TilesState& state) {
  const TilePlace place{static_cast<std::uint32_t>(state.owner), state.group};
  if (place.owner >= layout_.slots() || place.group >= layout_.groups()) return;
  if (!tile_of(state.entry, place) || find(place)) return;
  enter(place, state.entry);
}

/// The receiver finds the entry when it finds the word of the latest: pairs with Mailbox.
void MailboxTiles::enter(TilePlace place, std::uint64_t entry) {
  arena_->pool().confirm();
  memory_.publish_word(entry_at(place), entry);
  memory_.store_fence();
  memory_.publish_word(box(place.owner) + TableLayout::latest, entry);
}

/// Nullopt: all tiles of the piece are taken.
std::optional<std::uint64_t> MailboxTiles::take(TilesState state, TilePlace place,
                                                std::uint32_t line) {
  if (state.taken == state.piece_tiles) return std::nullopt;
  const std::uint64_t offset = state.piece_offset + tile_bytes * state.taken;
  // words of an earlier user of the memory would each cost the receiver a look
  constexpr std::byte zeros[tile_bytes]{};
  arena_->pool().confirm();
  memory_.publish_bulk(at(offset), zeros, tile_bytes);
  ++state.number;
  ++state.taken;
  state.owner = place.owner;
  state.group = place.group;
  state.entry = sealed(offset, with_line(0, line), place);
  write(state);
  enter(place, state.entry);
  return state.entry;
}

/// Their tiles may have owners. Only where the state was overwritten: else it counts the pieces.
Result<std::uint32_t> MailboxTiles::first_unused_piece() const {
  for (std::uint32_t number = 0;; ++number) {
    const auto known = arena_->open(name_of_piece(number));
    if (known) continue;
    if (known.error().code != ErrorCode::not_found) return unexpected(known.error());
    return number;
  }
}

/// First writer wins; a piece that the dead have made is the next one's.
Result<void> MailboxTiles::add_piece(std::uint32_t number, std::uint64_t timeout_ns) {
  const auto piece =
      PENSTOCK_TRY(arena_->create(name_of_piece(number), bytes_of_piece(number),
                                  {.alignment = tile_bytes, .zero = false, .open_existing = true}));
  const auto guard = PENSTOCK_TRY(arena_->pool().lock(timeout_ns));
  const Read read = read_state();
  if (read.whole && read.state.pieces != number) return {};  // another was first
  if (read.whole) finish(read.state);
  TilesState state = read.state;
  ++state.number;
  state.piece_offset = piece.offset;
  state.piece_tiles = static_cast<std::uint32_t>(piece.bytes / tile_bytes);
  state.taken = 0;
  state.pieces = number + 1;
  write(state);
  return {};
}

}  // namespace penstock::transport
