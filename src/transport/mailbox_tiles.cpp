#include "transport/mailbox_tiles.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/checked.hpp"
#include "base/format.hpp"

namespace penstock::transport {
namespace {

/// A tile with more used lines than this counts as fully used, so it changes at most three times,
/// each time under its group's lock.
constexpr int lines_one_by_one = 2;
/// Each piece of a group is as large as all pieces before it, up to 2^8 times the first one: 9 MiB.
/// The first piece has tiles for as many receivers as the group has senders, and for 8 neighbours.
/// So no sender waits for a second piece if each talks to the next one; and if all talk to a power
/// of two of receivers, a ninth stays unused.
constexpr std::uint64_t first_piece_bytes = 36 << 10;
constexpr std::uint32_t doublings = 8;

std::uint64_t bytes_of_piece(std::uint32_t number) {
  return first_piece_bytes << std::min(number == 0 ? 0u : number - 1, doublings);
}

std::string name_of_piece(std::uint32_t group, std::uint32_t number) {
  return fmt::format("{}{}.{}", tiles_prefix, group, number);
}

std::uint32_t with_line(std::uint32_t lines, std::uint32_t line) {
  const std::uint32_t more = lines | 1u << line;
  return std::popcount(more) > lines_one_by_one ? TileEntry::lines_bits : more;
}

bool has_line(std::uint64_t entry, std::uint32_t line) {
  return (TileEntry::lines(entry) >> line & 1) != 0;
}

}  // namespace

/// Holds a group's lock, through the lock line of one of its senders.
class MailboxTiles::Guard {
 public:
  Guard(pool::Pool& pool, sync::Lock lock) : pool_(&pool), lock_(std::move(lock)) {}
  Guard(Guard&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), lock_(std::move(other.lock_)) {}
  Guard& operator=(Guard&&) = delete;
  ~Guard() {
    if (pool_ == nullptr) return;
    pool_->confirm();  // a late release would overwrite the line of the endpoint's next owner
    lock_.release();
  }

 private:
  pool::Pool* pool_;
  sync::Lock lock_;
};

MailboxTiles::MailboxTiles(arena::Arena& arena, std::byte* head, const TableHead& checked_head)
    : arena_(&arena),
      memory_(arena.pool().memory()),
      body_(arena.pool().base() + checked_head.body_offset),
      locks_(arena.pool().base() + checked_head.locks_offset),
      states_(reinterpret_cast<TilesStates*>(head + sizeof(TableHeadLines))),
      layout_(checked_head.slots),
      key_(checked_head.key) {}

sync::Lock MailboxTiles::lock_of(std::uint32_t sender, sync::AliveCheck alive) const {
  sync::Lock lock(memory_, locks_ + layout_.lock(sender / senders_a_tile), senders_a_tile,
                  sender % senders_a_tile, arena_->pool().token(), std::move(alive));
  lock.leave_nothing_dirty();  // the next owner of the slot may be on another node
  return lock;
}

void MailboxTiles::clear_lock_line(std::uint32_t slot) {
  arena_->pool().confirm();
  lock_of(slot, {}).repair();
}

void MailboxTiles::repair_lock_line(std::uint32_t slot) {
  sync::Lock lock = lock_of(slot, {});
  if (lock.intact()) return;
  arena_->pool().confirm();
  lock.repair();
}

/// Does not use the pool's lock, for which all ranks of a starting job would wait. The owner of an
/// endpoint's slot also owns its line of the group's lock.
Result<MailboxTiles::Guard> MailboxTiles::lock(std::uint32_t sender, std::uint64_t timeout_ns) {
  pool::Pool& pool = arena_->pool();
  if (!pool.attached_here())
    return fail(
        ErrorCode::invalid_argument,
        "this process was forked by one that is attached to pool {}, and cannot send as its "
        "parent: attach again here",
        pool.info().spec);
  std::uint64_t rival = 0;
  const auto alive = [&pool, &rival](std::uint64_t token) {
    if (token != pool.token()) rival = token;
    return pool.alive(token);
  };
  const auto taken = lock_of(sender, alive).acquire(timeout_ns);
  if (taken) return Guard(pool, lock_of(sender, {}));
  if (taken.error().code != ErrorCode::deadline) return unexpected(taken.error());
  return fail(
      ErrorCode::deadline,
      "the mailboxes of other endpoints: {}; it is {}; what its processes do: penstock ps {}",
      taken.error().message, rival != 0 ? pool.describe(rival) : "another endpoint of this process",
      pool.info().spec);
}

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

Result<std::uint64_t> MailboxTiles::find_or_make(std::uint32_t owner, std::uint32_t sender,
                                                 std::uint64_t timeout_ns) {
  const TilePlace place{owner, sender / senders_a_tile};
  const std::uint32_t line = sender % senders_a_tile / words_a_line;
  if (const auto entry = find(place); entry && has_line(*entry, line)) return *entry;
  const auto guard = PENSTOCK_TRY(lock(sender, timeout_ns));
  auto state = read_state(place.group);
  if (state) finish(place.group, *state);
  if (const auto entry = find(place)) {
    if (has_line(*entry, line)) return *entry;
    const std::uint64_t more =
        sealed(TileEntry::offset(*entry), with_line(TileEntry::lines(*entry), line), place);
    enter(place, more);
    return more;
  }
  if (!state || state->taken == state->piece_tiles)
    state = PENSTOCK_TRY(with_piece(place.group, state, timeout_ns));
  return take(*state, place, line);
}

/// A torn copy was written by a process that died; the other copy holds the state before that.
std::optional<TilesState> MailboxTiles::read_state(std::uint32_t group) const {
  TilesStates states;
  memory_.observe_bulk(states.data(), &states_[group], sizeof states);
  std::optional<TilesState> newest;
  for (const TilesState& state : states) {
    const bool inside =
        state.piece_offset % tile_bytes == 0 && state.taken <= state.piece_tiles &&
        arena_->pool().at(state.piece_offset, tile_bytes * state.piece_tiles) != nullptr;
    if (state.checksum != checksum_of(state, key_) || !inside) continue;
    if (!newest || state.number > newest->number) newest = state;
  }
  return newest;
}

void MailboxTiles::write(std::uint32_t group, TilesState state) {
  TilesStates& lines = states_[group];
  state.checksum = checksum_of(state, key_);
  arena_->pool().confirm();
  memory_.publish_line(&lines[0], &state);
  memory_.store_fence();  // the tile is taken before an entry names it
  // A process declared dead here may be late with one copy, not with both: one stays the latest.
  arena_->pool().confirm();
  memory_.publish_line(&lines[1], &state);
}

/// Writes the entry of the last taken tile if its taker died before that.
void MailboxTiles::finish(std::uint32_t group, const TilesState& state) {
  const TilePlace place{static_cast<std::uint32_t>(state.owner), group};
  if (state.owner >= layout_.slots()) return;
  if (!tile_of(state.entry, place) || find(place)) return;
  enter(place, state.entry);
}

/// The receiver looks for the entry when the word `latest` changes: pairs with Mailbox::find_new.
void MailboxTiles::enter(TilePlace place, std::uint64_t entry) {
  arena_->pool().confirm();
  memory_.publish_word(entry_at(place), entry);
  memory_.store_fence();
  memory_.publish_word(box(place.owner) + TableLayout::latest, entry);
}

/// The piece of `state` must have a free tile.
std::uint64_t MailboxTiles::take(TilesState state, TilePlace place, std::uint32_t line) {
  const std::uint64_t offset = state.piece_offset + tile_bytes * state.taken;
  // stale words of an earlier user would each cost the receiver a look
  constexpr std::byte zeros[tile_bytes]{};
  arena_->pool().confirm();
  memory_.publish_bulk(at(offset), zeros, tile_bytes);
  ++state.number;
  ++state.taken;
  state.owner = place.owner;
  state.entry = sealed(offset, with_line(0, line), place);
  write(place.group, state);
  enter(place, state.entry);
  return state.entry;
}

/// Existing pieces may have tile owners. Needed only if the state, which counts them, is lost.
Result<std::uint32_t> MailboxTiles::first_unused_piece(std::uint32_t group) const {
  for (std::uint32_t number = 0;; ++number) {
    const auto known = arena_->open(name_of_piece(group, number));
    if (known) continue;
    if (known.error().code != ErrorCode::not_found) return unexpected(known.error());
    return number;
  }
}

/// Returns the state with one more piece. It becomes valid when its first tile is taken; a piece
/// made by a process that died before that is used by the next one.
Result<TilesState> MailboxTiles::with_piece(std::uint32_t group,
                                            const std::optional<TilesState>& state,
                                            std::uint64_t timeout_ns) {
  const std::uint32_t number = state ? state->pieces : PENSTOCK_TRY(first_unused_piece(group));
  const auto piece = PENSTOCK_TRY(arena_->create(
      name_of_piece(group, number), bytes_of_piece(number),
      {.alignment = tile_bytes, .zero = false, .open_existing = true, .timeout_ns = timeout_ns}));
  TilesState more = state.value_or(TilesState{});
  more.piece_offset = piece.offset;
  more.piece_tiles = static_cast<std::uint32_t>(piece.bytes / tile_bytes);
  more.taken = 0;
  more.pieces = number + 1;
  return more;
}

}  // namespace penstock::transport
