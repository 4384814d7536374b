// The owner's side of one-sided access.
#include <atomic>

#include "base/format.hpp"
#include "pool/checksummed_line.hpp"
#include "rma/layout.hpp"
#include "rma/rma.hpp"

namespace penstock::rma {

namespace {

/// A number that no other table of this process has.
std::uint64_t next_number() {
  static std::atomic<std::uint64_t> made{0};
  return made.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Result<std::unique_ptr<RegionTable>> RegionTable::make(arena::Arena& arena) {
  std::unique_ptr<RegionTable> table(new RegionTable(arena));
  table->number_ = next_number();
  PENSTOCK_TRY(table->add_block());
  return table;
}

RegionTable::~RegionTable() {
  if (!arena_.pool().attached_here()) return;
  const auto& memory = arena_.pool().memory();
  const RegionLine none{};
  for (const auto& [key, line] : lines_) {
    memory.publish_line(line, &none);  // its checksum is that of a line of zeros
  }
  // Each destroy takes the pool's lock: these stores are ordered before the space gets a new owner.
  for (const auto& block : blocks_) (void)arena_.destroy(block);
}

/// Appends a block, and publishes it before the last block's header refers to it.
Result<void> RegionTable::add_block() {
  const std::uint64_t capacity = first_capacity << blocks_.size();
  if (blocks_.size() == max_blocks) {
    return fail(ErrorCode::no_space, "{} memory regions are registered, and no more are possible",
                lines_.size());
  }
  pool::Pool& pool = arena_.pool();
  arena::CreateOptions options;
  options.lifetime = arena::Lifetime::process;
  options.zero = true;
  options.near = pool.own_part();
  auto block = PENSTOCK_TRY(arena_.create(
      fmt::format("penstock.regions.{:x}.{}.{}", pool.token(), number_, blocks_.size()),
      64 + 64 * capacity, options));
  const auto& memory = pool.memory();
  BlockHeader header{};
  header.magic = block_magic;
  header.capacity = capacity;
  pool::publish_checksummed_line(memory, pool.base(), block.offset, header);
  memory
      .store_fence();  // pairs with PeerRegions::search, which reads it after the header before it
  if (!blocks_.empty()) {
    header.capacity = capacity / 2;
    header.next = block.offset;
    pool::publish_checksummed_line(memory, pool.base(), blocks_.back().offset, header);
  }
  blocks_.push_back(std::move(block));
  return {};
}

/// Finds a free line for this key, in the first block that has one.
std::byte* RegionTable::free_line(std::uint64_t key) {
  pool::Pool& pool = arena_.pool();
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (std::uint64_t line = 0; line < window; ++line) {
      std::byte* at = pool.base() + line_place(blocks_[i].offset, first_capacity << i, key, line);
      // Only this process writes here, so its own copy is the newest.
      RegionLine found;
      pool.memory().load_line(&found, at);
      if (found.bytes == 0) return at;
    }
  }
  return nullptr;
}

Result<void> RegionTable::add(const Region& region) {
  if (lines_.count(region.key) != 0) {
    return fail(ErrorCode::already_exists, "a memory region with key {:#x} is registered already",
                region.key);
  }
  std::byte* at = free_line(region.key);
  if (at == nullptr) {
    if (auto added = add_block(); !added) return added;
    at = free_line(region.key);
  }
  pool::Pool& pool = arena_.pool();
  RegionLine line{};
  line.key = region.key;
  line.base = region.base;
  line.bytes = region.bytes;
  line.offset = region.offset;
  line.access = region.access;
  line.serial = ++serial_;
  lines_.emplace(region.key, at);
  pool::publish_checksummed_line(pool.memory(), pool.base(), *pool.offset_of(at), line);
  pool.memory().full_fence();  // pairs with PeerRegions::search and still
  return {};
}

void RegionTable::remove(std::uint64_t key) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  const RegionLine none{};
  const auto& memory = arena_.pool().memory();
  memory.publish_line(found->second, &none);
  memory.full_fence();  // pairs with PeerRegions::still
  lines_.erase(found);
}

}  // namespace penstock::rma
