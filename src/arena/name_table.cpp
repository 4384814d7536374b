#include "arena/name_table.hpp"

#include <algorithm>
#include <cstddef>

namespace penstock::arena {

namespace {

constexpr std::uint32_t scan_batch = 64;

}  // namespace

// The caller has invalidated the lines and done a load fence. The entry, published last, is loaded
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

void NameTable::invalidate(std::uint64_t hash) const {
  for (const auto index : geometry_.candidates(hash))
    region_.invalidate(geometry_.slot_offset(index), sizeof(Slot));
}

/// Call it after invalidate() and a load fence. Entries do not change while their object exists, so
/// a half-written one belongs to a creation under way, or to one whose process was killed.
Lookup NameTable::load_lookup(std::string_view name, std::uint64_t hash) const {
  Lookup lookup;
  for (const auto index : geometry_.candidates(hash)) {
    const auto slot = load(index);
    if (!slot) {
      if (!lookup.first_free) lookup.first_free = index;
    } else if (slot->entry.hash == hash && slot->name_view() == name) {
      lookup.found = TableEntry{index, *slot};
      lookup.first_free.reset();
      return lookup;
    }
  }
  return lookup;
}

Lookup NameTable::find(std::string_view name) const {
  return find_each({name}).front();
}

std::vector<Lookup> NameTable::find_each(const std::vector<std::string_view>& names) const {
  std::vector<std::uint64_t> hashes;
  for (const std::string_view name : names) {
    hashes.push_back(hash_bytes(name.data(), name.size(), key_));
    invalidate(hashes.back());
  }
  region_.load_fence();
  std::vector<Lookup> lookups;
  for (std::size_t i = 0; i < names.size(); ++i)
    lookups.push_back(load_lookup(names[i], hashes[i]));
  return lookups;
}

std::optional<Slot> NameTable::read(std::uint32_t index) const {
  if (index >= geometry_.slots) return std::nullopt;
  region_.invalidate(geometry_.slot_offset(index), sizeof(Slot));
  region_.load_fence();
  return load(index);
}

void NameTable::put(std::uint32_t index, std::string_view name, SlotEntry entry) const {
  put_each({{index, name, entry}});
}

void NameTable::put_each(const std::vector<Wanted>& wanted) const {
  std::vector<Slot> slots;
  for (const auto& [index, name, entry] : wanted) {
    Slot slot{};
    slot.entry = entry;
    slot.entry.state = SlotState::used;
    slot.entry.hash = hash_bytes(name.data(), name.size(), key_);
    slot.name.length = static_cast<std::uint8_t>(name.size());
    std::copy(name.begin(), name.end(), slot.name.text);
    slot.entry.checksum = slot_checksum(slot, index, key_);
    region_.publish_line(geometry_.slot_offset(index) + line_bytes, &slot.name);
    slots.push_back(slot);
  }
  // Pairs with load(). Even after a crash an entry must not stand without its name: it would become
  // valid, with its space long freed, when the same name is put into this slot again.
  region_.store_fence();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    region_.publish_line(geometry_.slot_offset(wanted[i].index), &slots[i].entry);
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
