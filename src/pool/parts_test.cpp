// Pools of several parts.
#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "device/mapping.hpp"
#include "device/placement.hpp"
#include "device/superblock.hpp"
#include "pool/layout.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t mib = 1u << 20;

std::uint64_t word_in_file(const std::string& path, std::uint64_t offset) {
  std::uint64_t word = 0;
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&word), sizeof word);
  return word;
}

class PartsTest : public testing::Test {
 protected:
  std::string part(int i) const { return folder_.file(fmt::format("part{}", i)); }
  std::string spec() const { return part(0) + "," + part(1) + "," + part(2); }
  void create(const std::string& spec, std::uint64_t bytes = 24 * mib) {
    auto created = pool::create({.spec = spec, .bytes = bytes, .max_processes = 16});
    ASSERT_TRUE(created) << created.error().message;
  }
  static Error attach_error(const std::string& spec) {
    auto pool = Pool::attach({.spec = spec});
    if (!pool) return pool.error();
    ADD_FAILURE() << "attached";
    return Error{};
  }
  TestFolder folder_;
};

TEST_F(PartsTest, StripesAlternateOverParts) {
  create(spec());
  auto attached = Pool::attach({.spec = spec()});
  ASSERT_TRUE(attached) << attached.error().message;
  const Pool& pool = **attached;
  ASSERT_EQ(pool.bytes(), 24 * mib);
  // the first stripe holds the tables
  for (std::uint64_t stripe = 1; stripe < 12; ++stripe) {
    pool.memory().publish_word(pool.at(stripe * 2 * mib, 8), 1000 + stripe);
    pool.memory().publish_word(pool.at((stripe + 1) * 2 * mib - 8, 8), 2000 + stripe);
  }
  pool.memory().store_fence();
  for (std::uint64_t stripe = 1; stripe < 12; ++stripe) {
    const std::string path = part(static_cast<int>(stripe % 3));
    const std::uint64_t begin =
        2 * mib + stripe / 3 * 2 * mib;  // each part begins with its superblock
    EXPECT_EQ(word_in_file(path, begin), 1000 + stripe);
    EXPECT_EQ(word_in_file(path, begin + 2 * mib - 8), 2000 + stripe);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(std::filesystem::file_size(part(i)), 10 * mib);
}

TEST_F(PartsTest, LastRowOfStripesMayBeShorter) {
  // 10 MiB a part in stripes of 4 MiB: rows of 4, 4 and 2
  device::Superblock superblock{
      .bytes = 20 * mib, .part_count = 2, .data_offset = 2 * mib, .stripe_bytes = 4 * mib};
  std::vector<device::OpenPart> parts;
  for (int i = 0; i < 2; ++i) {
    auto reserved = device::reserve_part({.path = part(i)}, 12 * mib);
    ASSERT_TRUE(reserved) << reserved.error().message;
    ASSERT_TRUE(device::name_part(*reserved, {}));
    parts.push_back(std::move(*reserved));
  }
  auto mapping = device::map_pool(parts, superblock, device::Access::write);
  ASSERT_TRUE(mapping) << mapping.error().message;
  const auto memory = *coherence::bind(coherence::Mode::hardware);
  const std::array<std::uint64_t, 6> begins = {0, 4, 8, 12, 16, 18};
  for (std::uint64_t begin : begins) memory.publish_word(mapping->base() + begin * mib, begin + 1);
  EXPECT_EQ(word_in_file(part(0), 2 * mib), 1u);
  EXPECT_EQ(word_in_file(part(1), 2 * mib), 5u);
  EXPECT_EQ(word_in_file(part(0), 6 * mib), 9u);
  EXPECT_EQ(word_in_file(part(1), 6 * mib), 13u);
  EXPECT_EQ(word_in_file(part(0), 10 * mib), 17u);
  EXPECT_EQ(word_in_file(part(1), 10 * mib), 19u);
}

TEST_F(PartsTest, FindsStripeOfByte) {
  // as above: 0 to 4, 4 to 8, 8 to 12, 12 to 16, 16 to 18, 18 to 20
  const device::Striping striping{.bytes = 20 * mib, .stripe_bytes = 4 * mib, .parts = 2};
  const std::array<std::uint64_t, 7> begins = {0, 4, 8, 12, 16, 18, 20};
  for (std::size_t i = 0; i < 6; ++i) {
    for (const std::uint64_t at : {begins[i] * mib, begins[i + 1] * mib - 1}) {
      const device::Stripe stripe = striping.stripe_of(at);
      EXPECT_EQ(stripe.part, i % 2);
      EXPECT_EQ(stripe.begin, begins[i] * mib);
      EXPECT_EQ(stripe.end, begins[i + 1] * mib);
    }
  }
  const device::Stripe whole =
      device::Striping{.bytes = 20 * mib, .stripe_bytes = 4 * mib}.stripe_of(19 * mib);
  EXPECT_EQ(whole.begin, 0u);
  EXPECT_EQ(whole.end, 20 * mib);
  create(spec());
  const auto info = inspect(spec());
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->striping.parts, 3u);
  EXPECT_EQ(info->striping.stripe_bytes, 2 * mib);
  EXPECT_EQ(info->striping.bytes, 24 * mib);
}

TEST_F(PartsTest, StripesNeedFewMappings) {
  for (std::uint32_t parts : {2u, 3u, 7u, 64u}) {
    for (std::uint64_t part_bytes = 2 * mib; part_bytes < (1ull << 44); part_bytes *= 3) {
      const std::uint64_t stripe = device::stripe_bytes_for(part_bytes, parts, 2 * mib);
      EXPECT_EQ(stripe % (2 * mib), 0u);
      EXPECT_LE((part_bytes + stripe - 1) / stripe * parts, device::max_mappings);
    }
  }
}

/// The numbers of a node's processes per part differ by at most one; over all nodes the difference
/// is at most half the number of parts. Objects of one process that lie apart use all parts in
/// turn.
TEST(PartFor, SpreadsProcessesOfOneNodeAndAll) {
  for (std::uint32_t parts = 1; parts <= 7; ++parts) {
    for (std::uint32_t nodes = 1; nodes <= 9; ++nodes) {
      for (std::uint32_t a_node = 1; a_node <= 20; ++a_node) {
        std::vector<int> all(parts);
        for (std::uint32_t node = 0; node < nodes; ++node) {
          std::vector<int> here(parts);
          for (std::uint32_t seat = 0; seat < a_node; ++seat) {
            ++here[device::part_for(seat, node, 0, parts)];
            ++all[device::part_for(seat, node, 0, parts)];
          }
          const auto [least, most] = std::minmax_element(here.begin(), here.end());
          EXPECT_LE(*most - *least, 1);
        }
        const auto [least, most] = std::minmax_element(all.begin(), all.end());
        EXPECT_LE(*most - *least, static_cast<int>(parts + 1) / 2) << parts << " " << nodes;
      }
    }
    std::set<std::uint32_t> own;
    for (std::uint32_t n = 0; n < parts; ++n) own.insert(device::part_for(5, 2, n, parts));
    EXPECT_EQ(own.size(), parts);
  }
}

/// The part depends on the launcher's number; without it on the rank, or on the slot.
TEST_F(PartsTest, ProcessHasItsOwnPart) {
  create(spec());
  const auto attach = [&](AttachOptions options) {
    options.spec = spec();
    options.emulated_node = 0;
    auto attached = Pool::attach(options);
    EXPECT_TRUE(attached) << attached.error().message;
    return std::move(*attached);
  };
  const auto seated = attach({.rank = 7, .seat = 2});
  const auto ranked = attach({.rank = 7});
  const auto neither = attach({});
  for (std::uint32_t n = 0; n < 4; ++n) {
    EXPECT_EQ(seated->own_part(n), (2 + seated->node() + n) % 3);
    EXPECT_EQ(ranked->own_part(n), (7 + ranked->node() + n) % 3);
    EXPECT_EQ(neither->own_part(n), (neither->slot() + neither->node() + n) % 3);
  }
}

TEST_F(PartsTest, AMissingPart) {
  create(spec());
  std::filesystem::remove(part(1));
  const Error error = attach_error(spec());
  EXPECT_EQ(error.code, ErrorCode::not_found);
  EXPECT_THAT(error.message, HasSubstr(part(1)));
}

TEST_F(PartsTest, TooFewOrTooManyNamed) {
  create(spec());
  EXPECT_EQ(attach_error(part(0)).code, ErrorCode::mismatch);
  EXPECT_THAT(attach_error(part(0)).message, HasSubstr("a pool of 3 parts, 1 were named"));
  EXPECT_THAT(attach_error(part(1)).message, HasSubstr("a pool of 3 parts, 1 were named"));
  EXPECT_THAT(attach_error(part(0) + "," + part(1)).message, HasSubstr("2 were named"));
  create(folder_.file("extra"));
  EXPECT_THAT(attach_error(spec() + "," + folder_.file("extra")).message,
              HasSubstr("a pool of 3 parts, 4 were named"));
}

TEST_F(PartsTest, ReorderedParts) {
  create(spec());
  const Error error = attach_error(part(0) + "," + part(2) + "," + part(1));
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, AllOf(HasSubstr(part(2)), HasSubstr("is part 2 of its pool but "
                                                                 "stands at place 1")));
}

TEST_F(PartsTest, APartOfAnotherPool) {
  create(spec());
  const std::string other = folder_.file("a") + "," + folder_.file("b") + "," + folder_.file("c");
  create(other);
  const Error error = attach_error(part(0) + "," + folder_.file("b") + "," + part(2));
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message, AllOf(HasSubstr(folder_.file("b")), HasSubstr("of another pool")));
}

TEST_F(PartsTest, ATruncatedPart) {
  create(spec());
  std::filesystem::resize_file(part(2), 4 * mib);
  EXPECT_THAT(attach_error(spec()).message, AllOf(HasSubstr(part(2)), HasSubstr("is truncated")));
}

TEST_F(PartsTest, SizesMustDivideEvenly) {
  auto created = pool::create({.spec = spec(), .bytes = 32 * mib});
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().message,
              AllOf(HasSubstr("not a multiple of 6 MiB"), HasSubstr("--size 31457280 or --size "
                                                                    "37748736")));
}

TEST_F(PartsTest, NamesNoSizeAboveLargest) {
  const auto created = pool::create({.spec = spec(), .bytes = ~std::uint64_t{0}});
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().message, HasSubstr("at most 256 TiB; give --size 281474972516352"));
  const auto rounded = pool::create({.spec = spec(), .bytes = 1ull << 48});
  ASSERT_FALSE(rounded);
  EXPECT_THAT(rounded.error().message,
              AllOf(HasSubstr("the nearest that is: --size 281474972516352"),
                    testing::Not(HasSubstr(" or --size"))));
}

TEST_F(PartsTest, FailureLeavesNoPart) {
  std::ofstream(part(2)) << std::string(8192, 'x');
  EXPECT_FALSE(pool::create({.spec = spec(), .bytes = 24 * mib, .overwrite = true}));
  EXPECT_EQ(folder_.entries(), 1u);
}

TEST_F(PartsTest, RemovesAllParts) {
  create(spec());
  ASSERT_TRUE(remove(spec()));
  EXPECT_EQ(folder_.entries(), 0u);
}

}  // namespace
}  // namespace penstock::pool
