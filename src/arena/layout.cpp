#include "arena/layout.hpp"

#include "base/checksum.hpp"

namespace penstock::arena {

std::uint64_t hash_bytes(const void* bytes, std::size_t count, std::uint64_t seed) {
  const std::uint64_t hash = base::xxh64(bytes, count, seed);
  return hash == 0 ? 1 : hash;
}

std::uint64_t slot_checksum(const Slot& slot, std::uint32_t index, std::uint64_t key) {
  constexpr std::size_t entry_part = sizeof(SlotEntry) - sizeof(std::uint64_t);
  unsigned char both[entry_part + sizeof(SlotName)];
  std::memcpy(both, &slot.entry, entry_part);
  std::memcpy(both + entry_part, &slot.name, sizeof(SlotName));
  return hash_bytes(both, sizeof both, key ^ (0x9e3779b97f4a7c15ull * (index + 1ull)));
}

}  // namespace penstock::arena
