#include "device/pool_mappings.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <thread>

#include "base/unique_fd.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

constexpr std::uint64_t base = 0x7f0000000000, pool_bytes = 0x4000;

class PoolMappingsTest : public testing::Test {
 protected:
  std::optional<std::uint64_t> offset(std::uint64_t address, std::uint64_t bytes = 1) const {
    return mappings_.offset_of(reinterpret_cast<const void*>(address), bytes);
  }
  static constexpr const char* own_line = "7f0000000000-7f0000004000 rw-s 00000000 00:1a 53 /a\n";
  device::PoolMappings mappings_{reinterpret_cast<const std::byte*>(base), pool_bytes};
};

TEST_F(PoolMappingsTest, KnowsOwnMappingWithoutRefresh) {
  EXPECT_EQ(offset(base + 8, pool_bytes - 8), 8u);
  EXPECT_EQ(offset(base + 8, pool_bytes - 7), std::nullopt);
  EXPECT_EQ(offset(base + pool_bytes), std::nullopt);
  EXPECT_EQ(offset(base - 1), std::nullopt);
  EXPECT_EQ(offset(base, ~0ull), std::nullopt);
}

TEST_F(PoolMappingsTest, FindsSecondMappingAndPartOfIt) {
  mappings_.refresh_from(std::string(own_line) +
                         "100000-104000 rw-s 00000000 00:1a 53 /a\n"
                         "200000-201000 r--s 00002000 00:1a 53");
  EXPECT_EQ(offset(0x100010, 0x3ff0), 0x10u);
  EXPECT_EQ(offset(0x100010, 0x3ff1), std::nullopt);
  EXPECT_EQ(offset(0x200fff), 0x2fffu);
  EXPECT_EQ(offset(0x201000), std::nullopt);
  mappings_.refresh_from(own_line);
  EXPECT_EQ(offset(0x100010), std::nullopt) << "has gone meanwhile";
  EXPECT_EQ(offset(base), 0u);
}

TEST_F(PoolMappingsTest, IgnoresForeignMappings) {
  mappings_.refresh_from(std::string(own_line) +
                         "100000-104000 rw-p 00000000 00:1a 53 /a\n"
                         "200000-204000 rw-s 00000000 00:1b 53 /a\n"
                         "300000-304000 rw-s 00000000 00:1a 54 /a\n"
                         "400000-404000 rw-s 00004000 00:1a 53 /a\n"
                         "500000-504000 rw-p 00000000 00:00 0\n"
                         "600000-\n"
                         "700000-704000 rw-s\n"
                         "800000-804000 rw-s 0 00:1a x\n");
  for (std::uint64_t at = 0x100000; at <= 0x800000; at += 0x100000)
    EXPECT_EQ(offset(at), std::nullopt) << at;
}

TEST_F(PoolMappingsTest, JoinsStripesOfSeveralFiles) {
  mappings_.refresh_from(
      "7f0000000000-7f0000001000 rw-s 00001000 00:1a 53 /a\n"
      "7f0000001000-7f0000002000 rw-s 00001000 00:1a 54 /b\n"
      "7f0000002000-7f0000003000 rw-s 00002000 00:1a 53 /a\n"
      "7f0000003000-7f0000004000 rw-s 00002000 00:1a 54 /b\n"
      "100000-101000 rw-s 00001000 00:1a 53 /a\n"
      "101000-102000 rw-s 00001000 00:1a 54 /b\n"
      "102000-103000 rw-s 00002000 00:1a 53 /a\n"
      "103000-104000 rw-s 00002000 00:1a 54 /b\n"
      "200000-203000 rw-s 00000000 00:1a 54 /b\n");
  EXPECT_EQ(offset(0x100800, 0x3000), 0x800u) << "one run over all stripes";
  EXPECT_EQ(offset(0x200fff), std::nullopt) << "the part's own superblock is not of the pool";
  EXPECT_EQ(offset(0x201000, 0x1000), 0x1000u);
  EXPECT_EQ(offset(0x202010), 0x3010u);
  EXPECT_EQ(offset(0x201800, 0x1000), std::nullopt) << "follows in the file, not in the pool";
}

TEST_F(PoolMappingsTest, KeepsLongestRanges) {
  std::string maps = own_line;
  for (std::uint64_t i = 1; i <= device::PoolMappings::max_mappings; ++i)
    maps += fmt::format("{:x}-{:x} rw-s 00000000 00:1a 53 /a\n", i << 20, (i << 20) + 0x1000);
  maps += "f0000000-f0004000 rw-s 00000000 00:1a 53 /a\n";
  mappings_.refresh_from(maps);
  EXPECT_EQ(offset(0xf0000000), 0u);
  EXPECT_EQ(offset(1 << 20), 0u);
  EXPECT_EQ(offset(device::PoolMappings::max_mappings << 20), std::nullopt);
}

TEST_F(PoolMappingsTest, AnswersCorrectlyDuringRefresh) {
  const std::string one = std::string(own_line) + "100000-104000 rw-s 00000000 00:1a 53 /a\n";
  const std::string two = std::string(own_line) +
                          "100000-101000 rw-s 00000000 00:1a 53 /a\n"
                          "200000-204000 rw-s 00000000 00:1a 53 /a\n";
  mappings_.refresh_from(one);
  std::thread refresher([&] {
    for (int i = 0; i < 2000; ++i) mappings_.refresh_from(i % 2 ? one : two);
  });
  for (int i = 0; i < 20000; ++i) {
    EXPECT_EQ(offset(0x100010, 0x100), 0x10u) << "in both";
    const auto elsewhere = offset(0x200010);
    EXPECT_TRUE(!elsewhere || *elsewhere == 0x10u);
  }
  refresher.join();
}

TEST_F(PoolMappingsTest, KeepsOnlyExistingAttachments) {
  class Two final : public device::PoolMappings::Attachments {
   public:
    std::vector<device::PoolMappings::Attachment> of_this_process() const override {
      return {{0x100000, 3, 7}, {0x200000, 4, 8}};
    }
    bool still_attached(const device::PoolMappings::Attachment& attachment) const override {
      return (attachment.slot == 3 && attachment.generation == 7 && first) ||
             (attachment.slot == 4 && attachment.generation == 8);
    }
    bool first = true;
  } two;
  device::PoolMappings mappings(reinterpret_cast<const std::byte*>(base), pool_bytes, &two);
  mappings.refresh_from(std::string(own_line) +
                        "100000-104000 rw-s 00000000 00:1a 53 /a\n"
                        "200000-202000 rw-s 00002000 00:1a 53 /a\n"
                        "300000-304000 rw-s 00000000 00:1a 53 /a\n");
  const auto lasting = [&](std::uint64_t at) {
    return mappings.attached_offset_of(reinterpret_cast<const void*>(at), 16);
  };
  EXPECT_EQ(lasting(base + 32), 32u);
  EXPECT_EQ(lasting(0x100020), 0x20u);
  EXPECT_EQ(lasting(0x200020), std::nullopt) << "no mapping of a pool begins like this";
  EXPECT_EQ(lasting(0x300020), std::nullopt) << "nobody's";
  two.first = false;
  EXPECT_EQ(lasting(0x100020), std::nullopt);
}

class AttachedMappingsTest : public PoolTest {};

TEST_F(AttachedMappingsTest, FindsAnotherAttachmentOfProcess) {
  create();
  auto pool = attach();
  auto other = attach();
  ASSERT_TRUE(pool && other);
  const auto arena = pool->info().arena_offset;
  const std::byte* there = other->base() + arena;
  EXPECT_EQ(pool->mappings().offset_of(there, 64), std::nullopt) << "before it has looked";
  pool->mappings().refresh();
  EXPECT_EQ(pool->mappings().offset_of(there, 64), arena);
  EXPECT_EQ(pool->mappings().offset_of(pool->base() + arena, 64), arena);
  EXPECT_EQ(pool->mappings().attached_offset_of(there, 64), arena);
  int on_the_stack = 0;
  EXPECT_EQ(pool->mappings().offset_of(&on_the_stack, 4), std::nullopt);
  other.reset();
  EXPECT_EQ(pool->mappings().offset_of(there, 64), arena) << "as of the last look";
  EXPECT_EQ(pool->mappings().attached_offset_of(there, 64), std::nullopt);
  pool->mappings().refresh();
  EXPECT_EQ(pool->mappings().offset_of(there, 64), std::nullopt);
}

TEST_F(AttachedMappingsTest, FollowsAttachAndDetach) {
  create();
  auto pool = attach();
  ASSERT_TRUE(pool);
  const auto arena = pool->info().arena_offset;
  pool->mappings().follow_attachments();
  auto other = attach();
  ASSERT_TRUE(other);
  const void* there = other->base() + arena;
  EXPECT_EQ(pool->mappings().attached_offset_of(there, 64), std::nullopt);
  pool->mappings().follow_attachments();
  EXPECT_EQ(pool->mappings().attached_offset_of(there, 64), arena);
  other.reset();
  pool->mappings().follow_attachments();
  EXPECT_EQ(pool->mappings().offset_of(there, 64), std::nullopt);
}

TEST_F(AttachedMappingsTest, FindsSharedMappingsOfProgram) {
  create();
  auto pool = attach();
  ASSERT_TRUE(pool);
  const base::UniqueFd fd(::open(spec_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_GE(fd.get(), 0);
  void* shared = ::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd.get(), 4096);
  void* cow = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.get(), 4096);
  ASSERT_TRUE(shared != MAP_FAILED && cow != MAP_FAILED);
  pool->mappings().refresh();
  EXPECT_EQ(pool->mappings().offset_of(shared, 8192), 4096u);
  EXPECT_EQ(pool->mappings().attached_offset_of(shared, 8192), std::nullopt);
  EXPECT_EQ(pool->mappings().offset_of(cow, 1), std::nullopt);
  ::munmap(shared, 8192);
  ::munmap(cow, 8192);
}

}  // namespace
}  // namespace penstock::pool
