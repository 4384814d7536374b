// Programs use their own bytes in the pool through the C interface: published stores, loads after
// an observe, writes and reads, by two nodes in turn.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "capi/attachment.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint64_t sync_area_bytes = 5 * 64;
constexpr std::uint32_t turns = 24;

/// Shared by all: the turn passes through the pool, right behind the bytes.
struct Truth {
  std::array<unsigned char, sync_area_bytes> bytes{};
};

class User {
 public:
  User(World& world, const SimulatedPool& simulated, Truth& truth)
      : world_(world), truth_(truth), handle_{std::make_shared<capi::Attachment>()} {
    handle_.attachment->pool = simulated.attach(world);
    sync_area_ = handle_.attachment->pool->base() + handle_.attachment->pool->info().arena_offset;
    doorbell_ = sync_area_ + sync_area_bytes;
  }

  void wait_for_turn(std::uint32_t turn) {
    const auto& memory = handle_.attachment->pool->memory();
    for (int looks = 0; memory.observe_word(doorbell_) != turn; ++looks) {
      world_.require(looks < 10'000, "the other's turn never ends");
      world_.sleep(1'000'000);
    }
  }
  void check() {
    std::array<unsigned char, sync_area_bytes> found;
    if (world_.random() % 2 == 0) {
      call(penstock_observe(&handle_, sync_area_, sync_area_bytes));
      std::memcpy(found.data(), sync_area_, sync_area_bytes);
    } else {
      call(penstock_read(&handle_, found.data(), sync_area_, sync_area_bytes));
    }
    world_.require(found == truth_.bytes, "the other's bytes have not arrived");
  }
  void change() {
    const std::uint64_t at = world_.random() % sync_area_bytes;
    const std::uint64_t bytes = 1 + world_.random() % (sync_area_bytes - at);
    for (std::uint64_t i = at; i < at + bytes; ++i) {
      truth_.bytes[i] = static_cast<unsigned char>(world_.random());
    }
    if (world_.random() % 2 == 0) {
      call(penstock_observe(&handle_, sync_area_ + at, bytes));
      std::memcpy(sync_area_ + at, truth_.bytes.data() + at, bytes);
      call(penstock_publish(&handle_, sync_area_ + at, bytes));
    } else {
      call(penstock_write(&handle_, sync_area_ + at, truth_.bytes.data() + at, bytes));
    }
  }
  void end_turn(std::uint32_t turn) {
    const auto& memory = handle_.attachment->pool->memory();
    memory.publish_word(doorbell_, turn + 1);  // not before the bytes: the calls must ensure that
    memory.store_fence();
  }

 private:
  void call(penstock_status_t status) { world_.require(status == PENSTOCK_OK, "a call fails"); }

  World& world_;
  Truth& truth_;
  penstock_pool handle_;
  std::byte* sync_area_ = nullptr;
  std::byte* doorbell_ = nullptr;
};

TEST(MemoryCalls, BytesOfUsersPassFromNodeToNode) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("C interface, bytes of users", 2);
  scenario.body = [&pool](World& world) {
    auto truth = std::make_shared<Truth>();
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, &pool, truth, node] {
        User user(world, pool, *truth);
        for (std::uint32_t turn = node; turn < turns; turn += 2) {
          user.wait_for_turn(turn);
          // A write must not rely on a read before it.
          if (world.random() % 2 == 0) user.check();
          user.change();
          user.end_turn(turn);
        }
      });
    }
  };
  expect_held("C interface", "random schedules", explore(scenario, 60));
}

}  // namespace
}  // namespace penstock::sim
