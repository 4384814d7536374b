#include "transport/tx_memory.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "transport/layout.hpp"

namespace penstock::transport {

namespace {

constexpr std::uint64_t briefly_ns = 10'000'000;

}  // namespace

TxMemory::~TxMemory() {
  for (const auto& piece : pieces_) (void)arena_->destroy(piece.object);
}

/// Takes the pool's lock, which a stopped process may hold: memory that cannot be given back in
/// time waits until a piece is needed, which takes the lock anyway.
void TxMemory::give_empty_pieces_back(std::uint64_t timeout_ns) {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    if (piece->used != 0) {
      ++piece;
      continue;
    }
    const auto gone = arena_->destroy(piece->object, timeout_ns);
    if (!gone && gone.error().code == ErrorCode::deadline) return;
    std::uint64_t& next = next_piece_bytes_[piece->of_class];
    next = std::max(next / 2, first_piece_bytes);
    piece = pieces_.erase(piece);
  }
}

Error TxMemory::no_room(std::uint64_t bytes, const char* what) const {
  arena_->pool().publish_activity(pool::found_full);  // readable even after the process has ended
  const auto stats = arena_->stats();
  const pool::Info& info = arena_->pool().info();
  return {ErrorCode::no_space,
          fmt::format("{} needs {} in one piece of pool {}; free are {} of {}, {} of them in one "
                      "piece; {}",
                      what, base::format_bytes(bytes), info.spec,
                      base::format_bytes(stats.bytes_total - stats.bytes_used),
                      base::format_bytes(stats.bytes_total),
                      base::format_bytes(stats.bytes_largest_free), pool::larger_pool_text(info))};
}

Result<TxMemory::Slab*> TxMemory::piece(Class of_class, std::uint64_t bytes) {
  arena::CreateOptions options;
  options.lifetime = arena::Lifetime::process;
  options.alignment = channel_alignment;
  options.zero = false;  // nonces make old contents harmless
  const auto object = PENSTOCK_TRY(arena_->create(
      fmt::format("penstock.tx.{}.{}.{}", owner_.slot, owner_.generation, made_), bytes, options));
  ++made_;
  return &pieces_.emplace_back(Slab{.object = object, .of_class = of_class});
}

/// Blocks have few sizes: one that was given back fits exactly or not at all.
std::byte* TxMemory::take_from(Slab& piece, std::uint64_t bytes) {
  std::byte* at = nullptr;
  if (piece.used == 0 && !piece.quiet) return at;  // waits to be given back
  for (Block& block : piece.free) {
    if (block.bytes != bytes) continue;
    at = block.at;
    block = piece.free.back();
    piece.free.pop_back();
    break;
  }
  if (at == nullptr && piece.object.bytes - piece.taken >= bytes) {
    at = piece.object.data + piece.taken;
    piece.taken += bytes;
  }
  if (at != nullptr) piece.used += bytes;
  return at;
}

Result<std::byte*> TxMemory::allocate(std::uint64_t bytes, const char* what, bool needed) {
  bytes = base::align_up(bytes, channel_alignment);
  const Class of_class = class_of(bytes);
  for (Slab& piece : pieces_)
    if (piece.of_class == of_class)
      if (std::byte* at = take_from(piece, bytes)) return at;
  // What follows waits for the pool's lock: who can do without looks first whether it is free.
  if (!needed) {
    const auto free = PENSTOCK_TRY(arena_->pool().lock(briefly_ns));
  }
  give_empty_pieces_back(needed ? 0 : briefly_ns);
  std::uint64_t& next = next_piece_bytes_[of_class];
  const bool shared = bytes <= next / 2;
  Result<Slab*> fresh = piece(of_class, shared ? next : bytes);
  if (fresh) next = std::min(2 * next, largest_piece_bytes);
  const bool full = !fresh && fresh.error().code == ErrorCode::no_space;
  if (full && shared) fresh = piece(of_class, bytes);  // the pool is nearly full
  if (!fresh && needed && fresh.error().code == ErrorCode::no_space)
    return unexpected(no_room(bytes, what));
  if (!fresh) return unexpected(fresh.error());
  return take_from(**fresh, bytes);
}

void TxMemory::leave_to_burial() {
  for (const auto& piece : pieces_)
    if (piece.used != 0) arena_->leave_to_burial(piece.object);
  std::erase_if(pieces_, [](const Slab& piece) { return piece.used != 0; });
}

void TxMemory::give_back(std::byte* at, std::uint64_t bytes, bool still) {
  bytes = base::align_up(bytes, channel_alignment);
  for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece) {
    if (!piece->holds(at)) continue;
    piece->used -= bytes;
    piece->quiet = piece->quiet && still;
    if (still) piece->free.push_back({at, bytes});
    if (piece->used == 0) give_empty_pieces_back(briefly_ns);
    return;
  }
}

}  // namespace penstock::transport
