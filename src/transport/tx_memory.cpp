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

Result<void> TxMemory::grow(std::uint64_t bytes, const char* what) {
  const std::string name =
      fmt::format("penstock.tx.{}.{}.{}", owner_.slot, owner_.generation, pieces_.size());
  arena::CreateOptions options;
  options.lifetime = arena::Lifetime::process;
  options.alignment = channel_alignment;
  options.zero = false;  // nonces make old contents harmless
  auto piece = arena_->create(name, std::max(bytes, next_piece_bytes_), options);
  if (!piece && piece.error().code == Code::no_space) piece = arena_->create(name, bytes, options);
  if (!piece) {
    const auto stats = arena_->stats();
    const auto& spec = arena_->pool().info().spec;
    return fail(piece.error().code,
                "{} needs {} of pool {}, {} of {} are free ({}); make a larger pool: penstock pool "
                "create {} --size {} --overwrite",
                what, base::format_bytes(bytes), spec,
                base::format_bytes(stats.bytes_total - stats.bytes_used),
                base::format_bytes(stats.bytes_total), piece.error().message, spec,
                base::align_up(2 * arena_->pool().bytes(), 2 << 20));
  }
  pieces_.push_back(*piece);
  free_ = piece->data;
  free_bytes_ = piece->bytes;
  next_piece_bytes_ = std::min<std::uint64_t>(2 * next_piece_bytes_, 8 << 20);
  return {};
}

Result<std::byte*> TxMemory::allocate(std::uint64_t bytes, const char* what) {
  bytes = base::align_up(bytes, channel_alignment);
  if (bytes > free_bytes_) {
    if (auto grown = grow(bytes, what); !grown) return unexpected(grown.error());
  }
  std::byte* taken = free_;
  free_ += bytes;
  free_bytes_ -= bytes;
  return taken;
}

}  // namespace penstock::transport
