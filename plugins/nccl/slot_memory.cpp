#include "nccl/slot_memory.hpp"

#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

constexpr std::uint64_t line_bytes = 64;

/// nullopt: it cannot be read.
std::optional<std::uint64_t> word_at(penstock_pool_t* pool, const void* line) {
  std::uint64_t found = 0;
  if (penstock_read(pool, &found, line, sizeof found) != PENSTOCK_OK) return std::nullopt;
  return found;
}

}  // namespace

Result SlotRing::drop_copies() const {
  return outcome(penstock_observe(pool, begin, bytes()), "ncclSend");
}

Result SlotRing::publish(std::uint64_t chunk, std::uint64_t bytes) const {
  if (!is_apart) return success;
  return outcome(penstock_publish(pool, slot(chunk), bytes), "ncclSend");
}

Result SlotRing::observe(std::uint64_t chunk, std::uint64_t bytes) const {
  if (!is_apart) return success;
  return outcome(penstock_observe(pool, slot(chunk), bytes), "ncclRecv");
}

bool SlotRing::has_failed() const {
  return word_at(pool, owner) != key || penstock_pool_alive(pool, token, nullptr, 0) == 0;
}

void SlotMemory::begin() {
  const std::uint64_t words[2 * line_bytes / sizeof(std::uint64_t)] = {key_};
  (void)penstock_write(pool_, data_, words, sizeof words);
}

void SlotMemory::give_up() {
  write(0, ~key_);
}

void SlotMemory::leave() {
  write(1, key_);
}

void SlotMemory::write_back(std::uint64_t bytes) const {
  (void)penstock_publish(pool_, data_ + head_bytes, bytes - head_bytes);
}

bool SlotMemory::has_left() const {
  const auto owner = word(0);
  return word(1) == key_ || (owner && *owner != key_ && *owner != ~key_);
}

SlotRing SlotMemory::ring(std::uint64_t place, std::uint64_t slot_bytes) const {
  SlotRing ring{.pool = pool_, .slot_bytes = slot_bytes, .owner = data_, .key = key_};
  ring.begin = data_ + head_bytes + place * ring.bytes();
  return ring;
}

std::optional<std::uint64_t> SlotMemory::word(std::uint64_t line) const {
  return word_at(pool_, data_ + line * line_bytes);
}

void SlotMemory::write(std::uint64_t line, std::uint64_t value) {
  (void)penstock_write(pool_, data_ + line * line_bytes, &value, sizeof value);
}

}  // namespace penstock::nccl
