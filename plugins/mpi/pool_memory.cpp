#include "pool_memory.hpp"

#include "base/format.hpp"

namespace penstock::mpi {

PoolMemory::~PoolMemory() {
  if (!attached_here()) return;
  // Only writes back and drops our cached copies. The arena reclaims the space, since other ranks
  // may still store there.
  for (const auto& [at, block] : blocks_) drop(block);
}

Result<arena::Object> PoolMemory::make(std::uint64_t bytes, arena::CreateOptions options) {
  std::uint64_t number;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    number = ++made_;
  }
  options.lifetime = arena::Lifetime::process;
  options.alignment = bytes >= page_bytes ? page_bytes : coherence::line_bytes;
  // Round up to whole lines, so that the last line holds no data of another owner.
  const std::uint64_t lines = (bytes + coherence::line_bytes - 1) / coherence::line_bytes;
  return arena_.create(fmt::format("penstock.mpi.{:x}.{}", arena_.pool().token(), number),
                       lines * coherence::line_bytes, options);
}

Result<arena::Object> PoolMemory::make(std::uint64_t bytes, bool zeroed,
                                       std::optional<std::uint32_t> part) {
  return make(bytes, {.zero = zeroed, .part = part, .near = arena_.pool().own_part()});
}

Result<arena::Object> PoolMemory::make_words(std::uint64_t bytes) {
  return make(bytes, {.zero = false, .near = arena_.pool().own_part(words_made_++)});
}

std::uint64_t PoolMemory::bell() {
  std::call_once(bell_once_, [this] {
    if (auto made = make(coherence::line_bytes, true)) bell_ = *std::move(made);
  });
  return bell_ ? bell_->offset : 0;
}

void PoolMemory::defer_bell_reclaim() {
  if (bell() != 0) defer_reclaim(*bell_);
}

void PoolMemory::give_back(const arena::Object& object) {
  (void)arena_.destroy(object);
}

/// Writes back and drops this process's cached copies. Otherwise its stores could reach the device
/// after the space has a new owner.
void PoolMemory::drop(const arena::Object& object) {
  const auto& memory = arena_.pool().memory();
  memory.write_back(object.data, object.bytes);
  memory.full_fence();
  memory.invalidate(object.data, object.bytes);
  memory.load_fence();
}

Result<void*> PoolMemory::allocate(std::uint64_t bytes) {
  auto made = PENSTOCK_TRY(make(bytes));
  // Drop cached copies of the previous owner's data: in simulated mode, storing bytes equal to the
  // cached copy would not count as a store.
  const auto& memory = arena_.pool().memory();
  memory.invalidate(made.data, made.bytes);
  memory.load_fence();
  const std::lock_guard<std::mutex> guard(mutex_);
  blocks_.emplace(made.data, made);
  return made.data;
}

bool PoolMemory::free(void* base) {
  arena::Object block;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = blocks_.find(static_cast<std::byte*>(base));
    if (found == blocks_.end()) return false;
    block = found->second;
    blocks_.erase(found);
  }
  if (!attached_here()) return true;  // in a forked child: the parent still uses it
  drop(block);
  give_back(block);
  return true;
}

std::optional<arena::Object> PoolMemory::block_of(const void* at, std::uint64_t bytes) {
  const std::lock_guard<std::mutex> guard(mutex_);
  auto after = blocks_.upper_bound(static_cast<const std::byte*>(at));
  if (after == blocks_.begin()) return std::nullopt;
  const arena::Object& block = std::prev(after)->second;
  const auto skipped = static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - block.data);
  if (skipped > block.bytes || bytes > block.bytes - skipped) return std::nullopt;
  return block;
}

}  // namespace penstock::mpi
