#include "transport/tx_memory.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "transport/layout.hpp"

namespace penstock::transport {

TxMemory::~TxMemory() {
  for (const auto& piece : pieces_) (void)arena_->destroy(piece);
}

Result<std::byte*> TxMemory::piece(std::uint64_t bytes, const char* what) {
  const std::string name =
      fmt::format("penstock.tx.{}.{}.{}", owner_.slot, owner_.generation, pieces_.size());
  arena::CreateOptions options;
  options.lifetime = arena::Lifetime::process;
  options.alignment = channel_alignment;
  options.zero = false;  // nonces make old contents harmless
  auto object = arena_->create(name, bytes, options);
  if (!object) {
    if (object.error().code != Code::no_space) return unexpected(object.error());
    arena_->pool().publish_activity(pool::found_full);  // stays readable when the process has ended
    const auto stats = arena_->stats();
    const auto& spec = arena_->pool().info().spec;
    return fail(Code::no_space,
                "{} needs {} in one piece of pool {}; free are {} of {}, {} of them in one piece; "
                "make a larger pool: penstock pool create {} --size {} --overwrite",
                what, base::format_bytes(bytes), spec,
                base::format_bytes(stats.bytes_total - stats.bytes_used),
                base::format_bytes(stats.bytes_total), base::format_bytes(stats.bytes_largest_free),
                spec, base::align_up(2 * arena_->pool().bytes(), 2 << 20));
  }
  pieces_.push_back(*object);
  return object->data;
}

Result<std::byte*> TxMemory::allocate(std::uint64_t bytes, const char* what) {
  bytes = base::align_up(bytes, channel_alignment);
  if (bytes > next_piece_bytes_ / 2) return piece(bytes, what);
  if (bytes > free_bytes_) {
    auto fresh = piece(next_piece_bytes_, what);
    if (!fresh) return piece(bytes, what);  // the pool is nearly full: only what is needed
    free_ = *fresh;
    free_bytes_ = next_piece_bytes_;
    next_piece_bytes_ = std::min<std::uint64_t>(2 * next_piece_bytes_, 8 << 20);
  }
  std::byte* taken = free_;
  free_ += bytes;
  free_bytes_ -= bytes;
  return taken;
}

}  // namespace penstock::transport
