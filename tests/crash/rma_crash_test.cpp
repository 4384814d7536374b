// SIGKILL between all stores of registering a region and of a put. Peers find a complete region or
// none, bytes outside the put keep their values, and all space is freed.
#include <optional>

#include "crash_test_base.hpp"
#include "rma/rma.hpp"

namespace penstock::crash {
namespace {

constexpr std::uint64_t sync_area_bytes = 1024;
constexpr std::uint64_t sync_area_address = 0x7000'0000'0000;
constexpr std::uint32_t both_ways = rma::remote_read | rma::remote_write;

class RmaCrash : public CrashTest, public testing::WithParamInterface<coherence::Mode> {
 protected:
  void SetUp() override {
    create(16 << 20, 16, GetParam());
    here_ = attach(spec_);
    area_ = *here_.arena->create("area", sync_area_bytes);
    shared_ = *here_.arena->create("place of the victim's table", 64);
  }
  rma::Region region(std::uint64_t key) const {
    return {key, sync_area_address, sync_area_bytes, area_.offset, both_ways};
  }
  std::string mode() const { return std::string(coherence::mode_name(GetParam())); }

  Attached here_;
  arena::Object area_, shared_;
};

/// More keys than the first block of a table holds; some are removed again.
constexpr std::uint64_t keys = 40;

TEST_P(RmaCrash, InRegistering) {
  const auto tell_place = [](const Attached& at, std::uint64_t place) {
    const auto object = at.arena->open("place of the victim's table");
    at.pool->memory().publish_word(object->data, place);
    at.pool->memory().store_fence();
  };
  survive_everywhere(
      "rma register, " + mode(), 60,
      [&](const auto& armed) {
        Attached at = attach(spec_);
        tell_place(at, 0);
        armed();
        auto table = rma::RegionTable::make(*at.arena);
        if (!table) throw std::runtime_error(table.error().message);
        tell_place(at, (*table)->place());
        for (std::uint64_t key = 1; key <= keys; ++key) {
          if (!(*table)->add(region(key))) throw std::runtime_error("not registered");
          if (key % 3 == 0) (*table)->remove(key);
        }
        table->reset();
        at.detach();
      },
      [&] {
        here_.pool->memory().invalidate(shared_.data, 64);
        here_.pool->memory().load_fence();
        const std::uint64_t place = here_.pool->memory().load_word(shared_.data);
        if (place == 0) return;
        rma::PeerRegions peer(*here_.pool, place);
        for (std::uint64_t key = 1; key <= keys; ++key) {
          const auto found = peer.find(key);
          if (!found) continue;
          EXPECT_EQ(found->key, key);
          EXPECT_EQ(found->base, sync_area_address);
          EXPECT_EQ(found->bytes, sync_area_bytes);
          EXPECT_EQ(found->offset, area_.offset);
        }
      });
}

/// After an interrupted put each of its bytes is old or new, and the bytes around it are unchanged.
TEST_P(RmaCrash, InPutting) {
  auto table = rma::RegionTable::make(*here_.arena);
  ASSERT_TRUE(table && (*table)->add(region(7)));
  const std::uint64_t place = (*table)->place();
  constexpr std::byte old{0x11}, fresh{0x22};
  constexpr std::pair<std::uint64_t, std::uint64_t> puts[] = {
      {8, 8}, {67, 3}, {125, 7}, {200, 140}, {511, 300}};
  const auto paint = [&] {
    const std::vector<std::byte> bytes(sync_area_bytes, old);
    here_.pool->memory().publish_bulk(area_.data, bytes.data(), sync_area_bytes);
    here_.pool->memory().full_fence();
  };
  paint();
  survive_everywhere(
      "rma put, " + mode(), 60,
      [&](const auto& armed) {
        const Attached at = attach(spec_);
        rma::PeerRegions peer(*at.pool, place);
        const std::vector<std::byte> bytes(sync_area_bytes, fresh);
        armed();
        for (const auto& [from, count] : puts)
          if (!peer.put(7, sync_area_address + from, bytes.data(), count))
            throw std::runtime_error("not put");
      },
      [&] {
        std::vector<std::byte> found(sync_area_bytes);
        rma::PeerRegions peer(*here_.pool, place);
        ASSERT_TRUE(peer.get(7, sync_area_address, found.data(), sync_area_bytes));
        for (std::uint64_t i = 0; i < sync_area_bytes; ++i) {
          const bool put = std::any_of(std::begin(puts), std::end(puts), [i](const auto& range) {
            return i >= range.first && i < range.first + range.second;
          });
          ASSERT_TRUE(found[i] == old || (put && found[i] == fresh)) << "byte " << i;
        }
        paint();
      });
}

INSTANTIATE_TEST_SUITE_P(Modes, RmaCrash,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::crash
