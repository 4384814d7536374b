// A peer's side of one-sided access: finds regions, copies into and out of them.
#include <algorithm>

#include "base/format.hpp"
#include "pool/checksummed_line.hpp"
#include "rma/layout.hpp"
#include "rma/rma.hpp"

namespace penstock::rma {

namespace {

constexpr std::uint64_t line_bytes = coherence::line_bytes;
constexpr std::uint64_t word_bytes = 8;
constexpr std::uint32_t puts_between_looks = 64;  ///< at the region's line, under a lasting key

std::uint64_t misalignment(const void* at, std::uint64_t unit) {
  return reinterpret_cast<std::uintptr_t>(at) % unit;
}

}  // namespace

void publish_range(const coherence::Memory& memory, void* to, const void* from,
                   std::uint64_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  const auto advance = [&](std::uint64_t done) {
    out += done;
    in += done;
    bytes -= done;
  };
  const auto part_of_word = [&](std::uint64_t part) {
    memory.publish_bytes(out, in, part);
    advance(part);
  };
  const auto words_until = [&](auto&& enough) {
    while (bytes >= word_bytes && !enough()) {
      std::uint64_t word;
      __builtin_memcpy(&word, in, sizeof word);
      memory.publish_word(out, word);
      advance(word_bytes);
    }
  };
  if (const std::uint64_t skipped = misalignment(out, word_bytes); skipped != 0 && bytes != 0)
    part_of_word(std::min(bytes, word_bytes - skipped));
  words_until([&] { return bytes >= line_bytes && misalignment(out, line_bytes) == 0; });
  if (const std::uint64_t whole = bytes & ~(line_bytes - 1); whole != 0) {
    memory.publish_bulk(out, in, whole);
    advance(whole);
  }
  words_until([] { return false; });
  if (bytes != 0) part_of_word(bytes);
}

// ---- finding -----------------------------------------------------------------------------------

Result<PeerRegions::Known> PeerRegions::search(std::uint64_t key) const {
  const auto& memory = pool_.memory();
  std::uint64_t block = place_, capacity = first_capacity;
  for (std::size_t i = 0; i < max_blocks && block != 0; ++i, capacity *= 2) {
    if (block % line_bytes != 0 || pool_.at(block, 64 + 64 * capacity) == nullptr)
      return fail(ErrorCode::wrong_format,
                  "a table of memory regions at {:#x} lies outside pool {}", block,
                  pool_.info().spec);
    const std::byte* lines[window];
    for (std::uint64_t line = 0; line < window; ++line) {
      lines[line] = pool_.base() + line_place(block, capacity, key, line);
      memory.invalidate(lines[line], line_bytes);
    }
    const auto header = pool::observe_checksummed_line<BlockHeader>(memory, pool_.base(), block);
    if (!header || header->magic != block_magic || header->capacity != capacity)
      return fail(ErrorCode::peer_dead, "the peer has closed: it has no memory regions any more");
    for (const std::byte* at : lines) {
      const auto offset = static_cast<std::uint64_t>(at - pool_.base());
      const auto line = pool::load_checksummed_line<RegionLine>(memory, pool_.base(), offset);
      if (!line || line->bytes == 0 || line->key != key) continue;
      return Known{{line->key, line->base, line->bytes, line->offset,
                    static_cast<std::uint32_t>(line->access)},
                   offset,
                   line->serial};
    }
    block = header->next;
  }
  return fail(ErrorCode::not_found, "the peer has no memory region with key {:#x}", key);
}

Result<PeerRegions::Known*> PeerRegions::known(std::uint64_t key) {
  if (last_ != nullptr && last_->region.key == key) return last_;
  auto at = known_.find(key);
  if (at == known_.end()) {
    auto found = PENSTOCK_TRY(search(key));
    at = known_.emplace(key, found).first;
  }
  return last_ = &at->second;
}

/// True if the line is unchanged since it was found. The caller has invalidated this node's copy.
bool PeerRegions::still(const Known& known) const {
  RegionLine line;
  pool_.memory().load_line(&line, pool_.base() + known.line);
  return line.serial == known.serial && line.key == known.region.key && line.bytes != 0;
}

Result<Region> PeerRegions::find(std::uint64_t key) {
  auto found = known(key);
  if (!found) return unexpected(found.error());
  pool_.memory().invalidate(pool_.base() + (*found)->line, line_bytes);
  pool_.memory().load_fence();
  if (still(**found)) return (*found)->region;
  forget(key);
  found = known(key);
  if (!found) return unexpected(found.error());
  return (*found)->region;
}

// ---- copying -----------------------------------------------------------------------------------

Result<std::byte*> PeerRegions::target(const Known& known, std::uint64_t address,
                                       std::uint64_t bytes, Access access) const {
  const Region& region = known.region;
  if ((region.access & access) == 0)
    return fail(ErrorCode::permission,
                "memory region {:#x} of the peer is not registered for remote {}", region.key,
                access == remote_read ? "reading" : "writing");
  if (!region.holds(address, bytes))
    return fail(ErrorCode::invalid_argument,
                "{} bytes at {:#x} do not lie in memory region {:#x} of the peer, which has {} "
                "bytes from {:#x} on",
                bytes, address, region.key, region.bytes, region.base);
  if (!region.in_pool())
    return fail(ErrorCode::unavailable, "memory region {:#x} of the peer is not in the pool",
                region.key);
  auto* at = static_cast<std::byte*>(pool_.at(region.offset + (address - region.base), bytes));
  if (at == nullptr)
    return fail(ErrorCode::wrong_format, "memory region {:#x} of the peer lies outside pool {}",
                region.key, pool_.info().spec);
  return at;
}

Result<void> PeerRegions::put(std::uint64_t key, std::uint64_t address, const void* from,
                              std::uint64_t bytes) {
  auto begun = begin_put(key, address, from, bytes);
  if (begun) store_fence();
  return begun;
}

void PeerRegions::store_fence() const {
  // A full fence, not only one before our next publish: a process that learns of the bytes by any
  // means must find them.
  pool_.memory().full_fence();  // pairs with get(), and with invalidations by any other process
}

Result<void> PeerRegions::begin_put(std::uint64_t key, std::uint64_t address, const void* from,
                                    std::uint64_t bytes) {
  const auto remembered = PENSTOCK_TRY(known(key));
  // A key that may mean another region by now must be looked up before anything is written.
  const bool lasts = (remembered->region.access & lasting_key) != 0;
  if (!lasts || ++remembered->puts % puts_between_looks == 0) {
    PENSTOCK_TRY(find(key));
  }
  const auto at = PENSTOCK_TRY(target(*last_, address, bytes, remote_write));
  publish_range(pool_.memory(), at, from, bytes);
  return {};
}

Result<void> PeerRegions::get(std::uint64_t key, std::uint64_t address, void* to,
                              std::uint64_t bytes) {
  constexpr int attempts = 2;  // the second one finds a region that was registered again
  const auto& memory = pool_.memory();
  for (int i = 0; i < attempts; ++i) {
    const auto found = PENSTOCK_TRY(known(key));
    const auto at = target(*found, address, bytes, remote_read);
    // Invalidates the region's line and the bytes together, under one fence.
    memory.invalidate(pool_.base() + found->line, line_bytes);
    if (at) memory.invalidate(*at, bytes);
    memory.load_fence();
    if (still(*found)) {
      if (!at) return unexpected(at.error());
      memory.load_bulk(to, *at, bytes);
      return {};
    }
    forget(key);
  }
  return fail(ErrorCode::not_found, "memory region {:#x} of the peer is gone", key);
}

}  // namespace penstock::rma
