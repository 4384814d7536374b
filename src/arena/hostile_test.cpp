// Metadata that a faulty or malicious peer has written over: errors, never a crash, an endless loop
// or an access outside the arena (run it with the address sanitizer too).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <random>

#include "arena/test_memory.hpp"
#include "base/seed_in_tests.hpp"

namespace penstock::arena {
namespace {

constexpr std::uint64_t small_pool = 1 << 20;

/// Calls everything that reads the arena; checks only bounds of the results.
void use_everything(TestMemory& memory, std::mt19937_64& random) {
  const auto formatted = read_format(memory.region(), memory.placement());
  if (!formatted || !*formatted) return;
  const auto& [geometry, key] = **formatted;
  const NameTable table(memory.region(), geometry, key);
  table.for_each([&](const TableEntry& entry) {
    ASSERT_LE(entry.slot.entry.offset + entry.slot.entry.bytes, memory.bytes());
    ASSERT_LE(entry.slot.name.length, max_name_bytes);
  });
  auto space = Space::begin(memory.region(), geometry, key, memory.flushes());
  if (!space) return;
  const ExtentReader& reader = *space;
  std::vector<ExtentHeader> used;
  (void)reader.for_each([&](const ExtentHeader& extent) {
    ASSERT_LE(extent.offset + extent.bytes, memory.bytes());
    if (extent.state == ExtentState::used) used.push_back(extent);
  });
  for (int i = 0; i < 20; ++i) {
    const auto name = fmt::format("n{}", i);
    const auto lookup = table.find(name);
    SpaceRequest request;
    request.bytes = random() % 5000;
    request.alignment = 64ull << (random() % 10);
    const auto extent = space->allocate(request);
    if (!extent) continue;
    ASSERT_LE(extent->offset + extent->bytes, memory.bytes());
    ASSERT_GE(extent->offset, geometry.extents_start);
    if (random() % 2 == 0) space->free(*extent);
    if (lookup.first_free)
      table.put(*lookup.first_free, name, {.offset = extent->offset + 64, .bytes = 1});
  }
  for (const auto& extent : used) space->free(extent);
}

void populate(TestMemory& memory) {
  const auto formatted = *format(memory.region(), memory.placement());
  const NameTable table(memory.region(), formatted.geometry, formatted.key);
  auto space = *Space::begin(memory.region(), formatted.geometry, formatted.key, memory.flushes());
  for (int i = 0; i < 40; ++i) {
    const auto name = fmt::format("n{}", i);
    const auto slot = *table.find(name).first_free;
    SpaceRequest request;
    request.bytes = 1000;
    request.slot = slot;
    const auto extent = *space.allocate(request);
    SlotEntry entry{};
    entry.offset = extent.offset + line_bytes;
    entry.bytes = 1000;
    entry.generation = extent.generation;
    table.put(slot, name, entry);
    if (i % 3 == 0) {
      table.remove(slot);
      space.free(extent);
    }
  }
}

/// Offsets of lines that hold metadata.
std::vector<std::uint64_t> metadata_lines(TestMemory& memory) {
  const auto formatted = **read_format(memory.region(), memory.placement());
  const auto& geometry = formatted.geometry;
  std::vector<std::uint64_t> lines;
  for (int i = 0; i < 5; ++i) {
    for (int line = 0; line < 5; ++line) {
      lines.push_back(geometry.arena_offset + static_cast<std::uint64_t>(line) * 64);
    }
  }
  const NameTable table(memory.region(), geometry, formatted.key);
  table.for_each([&](const TableEntry& entry) {
    lines.push_back(geometry.slot_offset(entry.index));
    lines.push_back(geometry.slot_offset(entry.index) + 64);
  });
  const ExtentReader reader(memory.region(), geometry, formatted.key);
  (void)reader.for_each([&](const ExtentHeader& extent) { lines.push_back(extent.offset); });
  return lines;
}

class Hostile : public ::testing::Test {
 protected:
  Hostile() { fmt::print("seed {}\n", seed_); }
  const std::uint64_t seed_ = base::seed_in_tests();
  std::mt19937_64 random_{seed_};
};

TEST_F(Hostile, RandomBytesInMetadata) {
  TestMemory memory(small_pool, seed_);
  populate(memory);
  const auto lines = metadata_lines(memory);
  const std::vector<std::byte> good(memory.base(), memory.base() + memory.bytes());
  for (int round = 0; round < 2'000; ++round) {
    std::copy(good.begin(), good.end(), memory.base());
    for (std::uint64_t hits = 1 + random_() % 8; hits > 0; --hits) {
      memory.base()[lines[random_() % lines.size()] + random_() % 64] =
          static_cast<std::byte>(random_());
    }
    ASSERT_NO_FATAL_FAILURE(use_everything(memory, random_));
  }
}

const std::uint64_t nasty[] = {0,          1,
                               63,         64,
                               65,         128,
                               4096,       small_pool - 64,
                               small_pool, small_pool + 64,
                               1ull << 32, 1ull << 63,
                               ~63ull,     ~0ull};

// A peer that knows the key: the checksums are right, the values are not.
TEST_F(Hostile, ForgedExtents) {
  TestMemory memory(small_pool, seed_);
  populate(memory);
  const auto formatted = **read_format(memory.region(), memory.placement());
  const std::vector<std::byte> good(memory.base(), memory.base() + memory.bytes());
  std::vector<ExtentHeader> extents;
  const ExtentReader reader(memory.region(), formatted.geometry, formatted.key);
  ASSERT_TRUE(reader.for_each([&](const ExtentHeader& extent) { extents.push_back(extent); }));
  for (int round = 0; round < 2'000; ++round) {
    std::copy(good.begin(), good.end(), memory.base());
    ExtentHeader forged = extents[random_() % extents.size()];
    const auto value =
        random_() % 4 == 0 ? random_() & ~63ull : nasty[random_() % std::size(nasty)];
    switch (random_() % 5) {
      case 0:
        forged.bytes = value;
        break;
      case 1:
        forged.bytes = value % small_pool;
        break;
      case 2:
        forged.slot = static_cast<std::uint32_t>(value);
        break;
      case 3:
        forged.generation = value;
        break;
      default:
        forged.state = static_cast<ExtentState>(value);
        break;
    }
    forged.checksum = line_checksum(forged, formatted.key);
    std::memcpy(memory.base() + forged.offset, &forged, sizeof forged);
    ASSERT_NO_FATAL_FAILURE(use_everything(memory, random_));
  }
}

TEST_F(Hostile, ForgedSlots) {
  TestMemory memory(small_pool, seed_);
  populate(memory);
  const auto formatted = **read_format(memory.region(), memory.placement());
  const NameTable table(memory.region(), formatted.geometry, formatted.key);
  std::vector<TableEntry> entries;
  table.for_each([&](const TableEntry& entry) { entries.push_back(entry); });
  for (int round = 0; round < 2'000; ++round) {
    TableEntry forged = entries[random_() % entries.size()];
    const auto value = random_() % 4 == 0 ? random_() : nasty[random_() % std::size(nasty)];
    switch (random_() % 4) {
      case 0:
        forged.slot.entry.offset = value;
        break;
      case 1:
        forged.slot.entry.bytes = value;
        break;
      case 2:
        forged.slot.name.length = static_cast<std::uint8_t>(value);
        break;
      default:
        forged.slot.entry.state = static_cast<SlotState>(value);
        break;
    }
    forged.slot.entry.checksum = slot_checksum(forged.slot, forged.index, formatted.key);
    std::memcpy(memory.base() + formatted.geometry.slot_offset(forged.index), &forged.slot,
                sizeof(Slot));
    ASSERT_NO_FATAL_FAILURE(use_everything(memory, random_));
  }
}

TEST_F(Hostile, ForgedCursorAndJournal) {
  TestMemory memory(small_pool, seed_);
  populate(memory);
  const auto formatted = **read_format(memory.region(), memory.placement());
  const auto& geometry = formatted.geometry;
  const std::vector<std::byte> good(memory.base(), memory.base() + memory.bytes());
  for (const auto value : nasty) {
    for (const auto other : nasty) {
      std::copy(good.begin(), good.end(), memory.base());
      Moving moving{};
      moving.magic = moving_magic;
      moving.cursor = value;
      moving.next_generation = other;
      moving.checksum = line_checksum(moving, formatted.key);
      std::memcpy(memory.base() + geometry.moving_offset(), &moving, sizeof moving);
      ExtentHeader image{};
      image.magic = extent_magic;
      image.state = ExtentState::free;
      image.offset = value;
      image.bytes = other;
      image.checksum = line_checksum(image, formatted.key);
      JournalTarget journal{};
      journal.magic = journal_magic;
      journal.target = value;
      unsigned char both[56 + 64];
      std::memcpy(both, &journal, 56);
      std::memcpy(both + 56, &image, 64);
      journal.checksum = hash_bytes(both, sizeof both, formatted.key);
      std::memcpy(memory.base() + geometry.journal_offset(), &journal, sizeof journal);
      std::memcpy(memory.base() + geometry.journal_image_offset(), &image, sizeof image);
      ASSERT_NO_FATAL_FAILURE(use_everything(memory, random_));
    }
  }
}

TEST_F(Hostile, ForgedHeader) {
  TestMemory memory(small_pool, seed_);
  populate(memory);
  const auto at = memory.base() + memory.placement().arena_offset;
  ArenaHeader good;
  std::memcpy(&good, at, sizeof good);
  for (const auto value : nasty) {
    for (int field = 0; field < 6; ++field) {
      ArenaHeader forged = good;
      if (field == 0) forged.version = static_cast<std::uint32_t>(value);
      if (field == 1) forged.levels = static_cast<std::uint32_t>(value);
      if (field == 2) forged.arena_bytes = value;
      if (field == 3) forged.level_one = value;
      if (field == 4) forged.slots = value;
      if (field == 5) forged.extents_start = value;
      if (std::memcmp(&forged, &good, sizeof good) == 0) continue;
      forged.checksum = line_checksum(forged, memory.placement().pool_id);
      std::memcpy(at, &forged, sizeof forged);
      std::memcpy(at + 64, &forged, sizeof forged);
      const auto formatted = read_format(memory.region(), memory.placement());
      ASSERT_FALSE(formatted) << "field " << field << " value " << value;
      EXPECT_TRUE(formatted.error().code == ErrorCode::wrong_format ||
                  formatted.error().code == ErrorCode::no_space);
    }
  }
}

TEST_F(Hostile, OpensWithOneHeaderButNotWithNone) {
  TestMemory memory(small_pool, seed_);
  EXPECT_FALSE(*read_format(memory.region(), memory.placement())) << "garbage is not formatted";
  populate(memory);
  const auto at = memory.base() + memory.placement().arena_offset;
  at[20] ^= std::byte{1};
  EXPECT_TRUE(*read_format(memory.region(), memory.placement()));
  at[64 + 20] ^= std::byte{1};
  const auto damaged = read_format(memory.region(), memory.placement());
  ASSERT_FALSE(damaged) << "a damaged arena is never formatted again";
  EXPECT_EQ(damaged.error().code, ErrorCode::wrong_format);
  EXPECT_NE(damaged.error().message.find("--overwrite"), std::string::npos);
}

}  // namespace
}  // namespace penstock::arena
