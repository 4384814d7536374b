#include "transport/tx_memory.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "transport/layout.hpp"

namespace penstock::transport {

TxMemory::~TxMemory() {
  for (const auto& piece : pieces_) (void)arena_->destroy(piece.object);
  first_.decline();
}

/// Takes the pool's lock, which a stopped process may hold. Memory that cannot be returned in time
/// waits until a piece is needed, which takes the lock anyway.
bool TxMemory::give_empty_pieces_back(std::uint64_t timeout_ns) {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    if (piece->used != 0) {
      ++piece;
      continue;
    }
    const auto gone = arena_->destroy(piece->object, timeout_ns);
    if (!gone && gone.error().code == ErrorCode::deadline) return false;
    piece = pieces_.erase(piece);
    next_piece_bytes_ = std::max(next_piece_bytes_ / 2, first_piece_bytes);
  }
  return true;
}

Result<TxMemory::Slab*> TxMemory::piece(std::uint64_t bytes, const char* what, bool needed) {
  const std::string name =
      fmt::format("penstock.tx.{}.{}.{}", owner_.slot, owner_.generation, made_);
  arena::CreateOptions options;
  options.lifetime = arena::Lifetime::process;
  options.alignment = channel_alignment;
  options.zero = false;                           // nonces make old contents harmless
  options.near = arena_->pool().own_part(made_);  // pieces rotate through all parts
  options.timeout_ns = needed ? 0 : briefly_ns;
  auto object = arena_->create(name, bytes, options);
  if (!object) {
    if (object.error().code != ErrorCode::no_space) return unexpected(object.error());
    if (!needed) return unexpected(object.error());
    arena_->pool().publish_activity(
        pool::activity_pool_full);  // readable even after the process has ended
    const auto stats = arena_->stats();
    const pool::Info& info = arena_->pool().info();
    if (stats.bytes_largest_free >= 2 * bytes)  // the pool has room, its storage has none
      return fail(ErrorCode::no_space, "{}: {}", what, object.error().message);
    return fail(
        ErrorCode::no_space,
        "{} needs {} in one piece of pool {}; free are {} of {}, {} of them in one piece; {}", what,
        base::format_bytes(bytes), info.spec,
        base::format_bytes(stats.bytes_total - stats.bytes_used),
        base::format_bytes(stats.bytes_total), base::format_bytes(stats.bytes_largest_free),
        pool::larger_pool_text(info));
  }
  ++made_;
  return &pieces_.emplace_back(Slab{.object = *object});
}

/// A piece for several blocks. The first one may have been made by another process of the node.
Result<TxMemory::Slab*> TxMemory::shared_piece(const char* what, bool needed) {
  if (first_.is_left()) {
    const auto object = PENSTOCK_TRY(first_.take(needed ? 0 : briefly_ns));
    ++made_;
    next_piece_bytes_ *= 2;
    return &pieces_.emplace_back(Slab{.object = object});
  }
  const auto made = PENSTOCK_TRY(piece(next_piece_bytes_, what, false));
  next_piece_bytes_ = std::min(2 * next_piece_bytes_, largest_piece_bytes);
  return made;
}

/// Blocks have few sizes: a returned block fits exactly or not at all.
std::byte* TxMemory::take_from(Slab& piece, std::uint64_t bytes) {
  std::byte* at = nullptr;
  if (piece.used == 0 && !piece.quiet) return at;  // about to be returned
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
  for (Slab& piece : pieces_)
    if (std::byte* at = take_from(piece, bytes)) return at;
  if (!give_empty_pieces_back(needed ? 0 : briefly_ns) && !needed)
    return fail(ErrorCode::deadline, "{}: the pool's lock is not free", what);
  Result<Slab*> fresh = unexpected(Error{});
  const bool shared = bytes <= next_piece_bytes_ / 2;
  const bool deadline_is_final = shared && (!needed || first_.is_left());
  if (shared) fresh = shared_piece(what, needed);
  if (!fresh && !(deadline_is_final && fresh.error().code == ErrorCode::deadline))
    fresh = piece(bytes, what, needed);  // a large block, or the pool is nearly full
  if (!fresh) return unexpected(fresh.error());
  return take_from(**fresh, bytes);
}

void TxMemory::defer_reclaim() {
  for (const auto& piece : pieces_)
    if (piece.used != 0) arena_->defer_reclaim(piece.object);
  std::erase_if(pieces_, [](const Slab& piece) { return piece.used != 0; });
}

void TxMemory::give_back(std::byte* at, std::uint64_t bytes, bool quiescent) {
  bytes = base::align_up(bytes, channel_alignment);
  for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece) {
    if (!piece->holds(at)) continue;
    piece->used -= bytes;
    piece->quiet = piece->quiet && quiescent;
    if (quiescent) piece->free.push_back({at, bytes});
    if (piece->used == 0) give_empty_pieces_back(briefly_ns);
    return;
  }
}

}  // namespace penstock::transport
