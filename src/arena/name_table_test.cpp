#include "arena/name_table.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "arena/test_memory.hpp"
#include "base/seed_in_tests.hpp"

namespace penstock::arena {
namespace {

class NameTableTest : public ::testing::Test {
 protected:
  NameTableTest()
      : formatted_(*format(memory_.region(), memory_.placement())),
        table_(memory_.region(), formatted_.geometry, formatted_.key) {}

  SlotEntry entry_of(std::uint64_t number) const {
    SlotEntry entry{};
    entry.lifetime = Lifetime::pool;
    entry.offset = formatted_.geometry.extents_start + 64 * (number % 1000 + 1);
    entry.bytes = number % 64 + 1;
    entry.generation = number;
    return entry;
  }

  TestMemory memory_{16 << 20};
  Formatted formatted_;
  NameTable table_;
};

TEST_F(NameTableTest, GarbageIsNoName) {
  const auto lookup = table_.find("absent");
  EXPECT_FALSE(lookup.found);
  ASSERT_TRUE(lookup.first_free);
  EXPECT_LT(*lookup.first_free, formatted_.geometry.levels[0]) << "the first level comes first";
  int names = 0;
  table_.for_each([&](const TableEntry&) { ++names; });
  EXPECT_EQ(names, 0);
}

TEST_F(NameTableTest, FindsWhatWasPut) {
  const std::string longest(max_name_bytes, 'n');
  const auto index = *table_.find(longest).first_free;
  table_.put(index, longest, entry_of(7));
  const auto lookup = table_.find(longest);
  ASSERT_TRUE(lookup.found);
  EXPECT_FALSE(lookup.first_free);
  EXPECT_EQ(lookup.found->index, index);
  EXPECT_EQ(lookup.found->slot.name_view(), longest);
  EXPECT_EQ(lookup.found->slot.entry.generation, 7u);
  EXPECT_EQ(table_.read(index)->entry.offset, entry_of(7).offset);
  EXPECT_FALSE(table_.find(std::string(max_name_bytes - 1, 'n')).found);
}

TEST_F(NameTableTest, RefusesObjectsOutsideTheArena) {
  auto entry = entry_of(1);
  const auto index = *table_.find("far").first_free;
  entry.offset = formatted_.geometry.extents_end - 64;
  entry.bytes = 65;
  table_.put(index, "far", entry);
  EXPECT_FALSE(table_.find("far").found);
}

TEST_F(NameTableTest, SlotElsewhereIsNotValid) {
  const auto index = *table_.find("moved").first_free;
  table_.put(index, "moved", entry_of(1));
  auto* base = memory_.base();
  std::memcpy(base + formatted_.geometry.slot_offset(index + 1),
              base + formatted_.geometry.slot_offset(index), sizeof(Slot));
  EXPECT_TRUE(table_.read(index));
  EXPECT_FALSE(table_.read(index + 1));
  EXPECT_FALSE(table_.read(formatted_.geometry.slots));
}

TEST_F(NameTableTest, RemovalHidesNoNameOnLaterLevels) {
  // Names that share a bucket of the first level.
  std::vector<std::string> names;
  const auto bucket = *table_.find("first").first_free;
  for (int i = 0; names.size() < 4; ++i) {
    auto name = fmt::format("name{}", i);
    if (*table_.find(name).first_free == bucket) names.push_back(name);
  }
  for (const auto& name : names) {
    table_.put(*table_.find(name).first_free, name, entry_of(names.size()));
  }
  table_.remove(table_.find(names[0]).found->index);
  EXPECT_FALSE(table_.find(names[0]).found);
  for (std::size_t i = 1; i < names.size(); ++i) EXPECT_TRUE(table_.find(names[i]).found);
  EXPECT_EQ(*table_.find(names[0]).first_free, bucket);
}

TEST_F(NameTableTest, AgreesWithAMap) {
  const std::uint64_t seed = base::seed_in_tests();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  std::map<std::string, std::uint64_t> model;
  for (std::uint64_t step = 1; step < 20'000; ++step) {
    const auto name = fmt::format("object.{}", random() % 600);
    const auto lookup = table_.find(name);
    ASSERT_EQ(lookup.found.has_value(), model.count(name) == 1) << name;
    if (lookup.found) {
      ASSERT_EQ(lookup.found->slot.entry.generation, model[name]);
      table_.remove(lookup.found->index);
      model.erase(name);
    } else if (lookup.first_free) {
      table_.put(*lookup.first_free, name, entry_of(step));
      model[name] = step;
    }
  }
  std::map<std::string, std::uint64_t> listed;
  table_.for_each([&](const TableEntry& entry) {
    listed[std::string(entry.slot.name_view())] = entry.slot.entry.generation;
  });
  EXPECT_EQ(listed, model);
}

}  // namespace
}  // namespace penstock::arena
