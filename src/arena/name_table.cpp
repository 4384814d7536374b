#include "arena/name_table.hpp"

#include <algorithm>
#include <cstddef>

namespace penstock::arena {

namespace {

/// A lookup that met a slot half written looks again this often.
constexpr int torn_retries = 3;
constexpr std::uint32_t scan_batch = 64;

}  // namespace

// The lines were invalidated and load-fenced by the caller. The entry, published last, is loaded
// first.
std::optional<Slot> NameTable::load(std::uint32_t index) const {
  Slot slot;
  const std::uint64_t offset = geometry_.slot_offset(index);
  region_.load_line(offset, &slot.entry);
  if (slot.entry.state != SlotState::used || slot.entry.checksum == 0) return std::nullopt;
  region_.load_line(offset + line_bytes, &slot.name);
  if (slot.entry.checksum != slot_checksum(slot, index, key_)) return std::nullopt;
  if (slot.name.length == 0 || slot.name.length > max_name_bytes) return std::nullopt;
  if (!geometry_.holds_object(slot.entry.offset, slot.entry.bytes)) return std::nullopt;
  return slot;
}

Lookup NameTable::find_once(std::string_view name, std::uint64_t hash, bool& torn) const {
  Lookup lookup;
  torn = false;
  const auto candidates = geometry_.candidates(hash);
  for (const auto index : candidates) {
    region_.invalidate(geometry_.slot_offset(index), sizeof(Slot));
  }
  region_.load_fence();
  for (const auto index : candidates) {
    const auto slot = load(index);
    if (!slot) {
      if (!lookup.first_free) lookup.first_free = index;
      SlotEntry entry;
      region_.load_line(geometry_.slot_offset(index), &entry);
      torn = torn || (entry.hash == hash && entry.checksum != 0);
    } else if (slot->entry.hash == hash && slot->name_view() == name) {
      lookup.found = TableEntry{index, *slot};
      lookup.first_free.reset();
      return lookup;
    }
  }
  return lookup;
}

Lookup NameTable::find(std::string_view name) const {
  const std::uint64_t hash = hash_bytes(name.data(), name.size(), key_);
  bool torn = false;
  Lookup lookup = find_once(name, hash, torn);
  for (int retry = 0; torn && !lookup.found && retry < torn_retries; ++retry) {
    lookup = find_once(name, hash, torn);
  }
  return lookup;
}

std::optional<Slot> NameTable::read(std::uint32_t index) const {
  if (index >= geometry_.slots) return std::nullopt;
  region_.invalidate(geometry_.slot_offset(index), sizeof(Slot));
  region_.load_fence();
  return load(index);
}

void NameTable::put(std::uint32_t index, std::string_view name, SlotEntry entry) const {
  Slot slot{};
  slot.entry = entry;
  slot.entry.state = SlotState::used;
  slot.entry.hash = hash_bytes(name.data(), name.size(), key_);
  slot.name.length = static_cast<std::uint8_t>(name.size());
  std::copy(name.begin(), name.end(), slot.name.text);
  slot.entry.checksum = slot_checksum(slot, index, key_);
  const std::uint64_t offset = geometry_.slot_offset(index);
  region_.publish_line(offset + line_bytes, &slot.name);
  // Pairs with load(). Not even after a crash does an entry stand without its name: it would come
  // to life, with its space long gone, when the same name is put into this slot again.
  region_.store_fence();
  region_.publish_line(offset, &slot.entry);
}

void NameTable::remove(std::uint32_t index) const {
  region_.publish_word(geometry_.slot_offset(index) + offsetof(SlotEntry, checksum), 0);
}

void NameTable::for_each(const std::function<void(const TableEntry&)>& visit) const {
  for (std::uint32_t start = 0; start < geometry_.slots; start += scan_batch) {
    const std::uint32_t count = std::min(scan_batch, geometry_.slots - start);
    region_.invalidate(geometry_.slot_offset(start), count * sizeof(Slot));
    region_.load_fence();
    for (std::uint32_t index = start; index < start + count; ++index) {
      if (const auto slot = load(index)) visit(TableEntry{index, *slot});
    }
  }
}

}  // namespace penstock::arena
