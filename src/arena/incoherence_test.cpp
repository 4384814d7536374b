// The name table and object space on memory without coherence. Nodes use them in turn, as they do
// under the pool's lock, and die at any publish while other publishes are still on their way.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "arena/test_incoherent.hpp"
#include "arena/test_memory.hpp"
#include "base/seed_in_tests.hpp"

namespace penstock::arena {
namespace {

constexpr int nodes = 3;

class Incoherence : public ::testing::Test {
 protected:
  Incoherence() {
    fmt::print("seed {}\n", seed_);
    for (auto& node : nodes_) node = fresh_node();
    formatted_ = *format(region(0), memory_.placement());
    release_lock(0);
  }

  std::unique_ptr<IncoherentNode> fresh_node() {
    return std::make_unique<IncoherentNode>(memory_.base(), memory_.bytes(), random_);
  }
  Region region(std::size_t node) { return Region(nodes_[node]->memory(), memory_.base()); }
  NameTable table(std::size_t node) {
    return NameTable(region(node), formatted_.geometry, formatted_.key);
  }
  Space space(std::size_t node) {
    return *Space::begin(region(node), formatted_.geometry, formatted_.key,
                         memory_.flushes(nodes_[node]->memory()));
  }

  /// As the pool's lock: publishes made under it reach the device before the release.
  void release_lock(std::size_t node) { nodes_[node]->memory().store_fence(); }

  /// Creates an object in the order that Arena keeps.
  bool create(std::size_t node, const std::string& name) {
    const NameTable names = table(node);
    Space extents = space(node);
    const auto slot = names.find(name).first_free;
    if (!slot) return false;
    SpaceRequest request;
    request.bytes = 1 + random_() % 2000;
    request.alignment = 64ull << (random_() % 6);
    request.slot = *slot;
    const auto extent = extents.allocate(request);
    if (!extent) return false;
    region(node).publish_zeros(extent->offset + line_bytes, extent->bytes - line_bytes);
    SlotEntry entry{};
    entry.offset = extent->offset + line_bytes;
    entry.bytes = request.bytes;
    entry.generation = extent->generation;
    names.put(*slot, name, entry);
    return true;
  }

  void destroy(std::size_t node, const std::string& name) {
    const NameTable names = table(node);
    Space extents = space(node);
    const auto found = names.find(name).found;
    ASSERT_TRUE(found) << name;
    names.remove(found->index);
    const auto extent = extents.peek(found->slot.entry.offset - line_bytes);
    ASSERT_TRUE(extent);
    ASSERT_EQ(extent->generation, found->slot.entry.generation);
    extents.free(*extent);
  }

  /// As reclaim(). Checks that each name has its extent; returns the names that are left.
  std::set<std::string> recover(std::size_t node) {
    const NameTable names = table(node);
    Space extents = space(node);
    std::vector<ExtentHeader> used;
    const auto walked = extents.for_each([&](const ExtentHeader& extent) {
      if (extent.state == ExtentState::used) used.push_back(extent);
    });
    EXPECT_TRUE(walked) << walked.error().message;
    std::set<std::string> left;
    for (auto extent = used.rbegin(); extent != used.rend(); ++extent) {
      const auto slot = names.read(extent->slot);
      if (slot && slot->entry.offset == extent->offset + line_bytes &&
          slot->entry.generation == extent->generation) {
        left.emplace(slot->name_view());
        expect_zero(node, slot->entry);
      } else {
        extents.free(*extent);
      }
    }
    std::set<std::string> listed;
    names.for_each([&](const TableEntry& entry) { listed.emplace(entry.slot.name_view()); });
    EXPECT_EQ(listed, left) << "a name without space";
    return left;
  }

  /// Nodes recover and die while they do so; at last one recovers that does not die.
  std::set<std::string> recover_dying(std::size_t node) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      nodes_[node]->die_after(random_() % 20);
      try {
        (void)recover(node);
        nodes_[node]->live();
        release_lock(node);
      } catch (const Death&) {
        nodes_[node]->lose_pending();
        nodes_[node] = fresh_node();
      }
    }
    auto left = recover(node);
    release_lock(node);
    return left;
  }

  void expect_zero(std::size_t node, const SlotEntry& entry) {
    const Line zero{};
    for (std::uint64_t at = 0; at < entry.bytes; at += 64) {
      Line line;
      region(node).observe_line(entry.offset + at, line.data());
      ASSERT_EQ(line, zero);
    }
  }

  using Line = std::array<std::byte, 64>;
  const std::uint64_t seed_ = base::seed_in_tests();
  std::mt19937_64 random_{seed_};
  TestMemory memory_{512 << 10, 3};
  std::array<std::unique_ptr<IncoherentNode>, nodes> nodes_;
  Formatted formatted_;
};

TEST_F(Incoherence, NodesInTurnAgree) {
  std::set<std::string> model;
  for (int step = 0; step < 1'500; ++step) {
    const std::size_t node = random_() % nodes;
    const auto name = fmt::format("n{}", random_() % 40);
    ASSERT_EQ(table(node).find(name).found.has_value(), model.count(name) == 1) << "step " << step;
    if (model.count(name) == 1) {
      ASSERT_NO_FATAL_FAILURE(destroy(node, name));
      model.erase(name);
    } else if (create(node, name)) {
      model.insert(name);
    }
    release_lock(node);
    if (step % 50 == 0) {
      const std::size_t other = random_() % nodes;
      ASSERT_EQ(recover(other), model) << "step " << step;
      release_lock(other);
    }
  }
}

TEST_F(Incoherence, DeathsLeaveNamesWholeOrAbsent) {
  std::set<std::string> model;
  int deaths = 0;
  for (int step = 0; step < 4'000; ++step) {
    const std::size_t node = random_() % nodes;
    const auto name = fmt::format("n{}", random_() % 40);
    const bool there = model.count(name) == 1;
    nodes_[node]->die_after(random_() % 60);
    try {
      if (there) {
        ASSERT_NO_FATAL_FAILURE(destroy(node, name));
        model.erase(name);
      } else if (create(node, name)) {
        model.insert(name);
      }
      nodes_[node]->live();
      release_lock(node);
    } catch (const Death&) {
      ++deaths;
      nodes_[node]->lose_pending();
      nodes_[node] = fresh_node();
      const auto left = recover_dying((node + 1) % nodes);
      model.erase(name);
      if (left.count(name) == 1) model.insert(name);
      ASSERT_EQ(left, model) << "step " << step;
    }
  }
  EXPECT_GT(deaths, 100);
  for (const auto& name : std::set<std::string>(model)) {
    const std::size_t node = random_() % nodes;
    ASSERT_NO_FATAL_FAILURE(destroy(node, name));
    release_lock(node);
  }
  Space extents = space(0);
  SpaceRequest all;
  all.bytes = formatted_.geometry.extents_end - formatted_.geometry.extents_start - line_bytes;
  EXPECT_TRUE(extents.allocate(all)) << "all space came back in one piece";
}

TEST_F(Incoherence, FormattingThatDiesIsDoneAgain) {
  for (int round = 0; round < 200; ++round) {
    TestMemory memory(512 << 10, random_());
    IncoherentNode dying(memory.base(), memory.bytes(), random_);
    IncoherentNode next(memory.base(), memory.bytes(), random_);
    dying.die_after(random_() % 12);
    try {
      ASSERT_TRUE(format(Region(dying.memory(), memory.base()), memory.placement()));
      dying.memory().store_fence();
    } catch (const Death&) {
      dying.lose_pending();
    }
    const Region region(next.memory(), memory.base());
    auto formatted = read_format(region, memory.placement());
    ASSERT_TRUE(formatted) << formatted.error().message;
    if (!*formatted) *formatted = *format(region, memory.placement());
    auto extents = Space::begin(region, (*formatted)->geometry, (*formatted)->key,
                                memory.flushes(next.memory()));
    ASSERT_TRUE(extents) << extents.error().message;
    EXPECT_TRUE(extents->allocate({1000}));
  }
}

}  // namespace
}  // namespace penstock::arena
