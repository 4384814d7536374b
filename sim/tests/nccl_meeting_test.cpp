// Ranks of an NCCL communicator meet in the pool: each gets what every rank brings, and the memory
// is at rest once all have left it.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "capi/attachment.hpp"
#include "nccl/meeting_entries.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

using nccl::MeetingEntries;

constexpr std::uint32_t ranks = 3, meetings = 6;
using Data = std::array<std::uint64_t, MeetingEntries::max_bytes / 8>;

Data data_of(std::uint32_t meeting, std::uint32_t rank) {
  Data data;
  data.fill(100 * meeting + rank + 1);
  return data;
}

/// Takes part in one meeting after the other, all in the same memory. Between two of them rank 0
/// frees the memory, and it becomes somebody else's.
class Guest {
 public:
  Guest(World& world, const SimulatedPool& simulated, std::uint32_t rank, std::uint32_t& number)
      : world_(world),
        rank_(static_cast<int>(rank)),
        number_(number),
        handle_{std::make_shared<capi::Attachment>()} {
    handle_.attachment->pool = simulated.attach(world);
    memory_ = handle_.attachment->pool->base() + handle_.attachment->pool->info().arena_offset;
  }

  void take_part(std::uint32_t meeting) {
    wait_until(world_, "the meeting before", [&] { return number_ == meeting; });
    MeetingEntries entries(&handle_, memory_, 2 * meeting + 1);
    const Data own = data_of(meeting, static_cast<std::uint32_t>(rank_));
    const auto token = static_cast<std::uint64_t>(rank_) + 1;
    entries.write(rank_, token, own.data(), sizeof own);
    for (std::uint32_t other = 0; other < ranks; ++other) expect_of(entries, meeting, other);
    entries.leave(rank_);
    if (rank_ != 0) return;
    for (int other = 0; other < static_cast<int>(ranks); ++other) {
      poll("a rank to leave", [&] { return entries.has_left(other); });
    }
    give_to_next_owner();
    number_ = meeting + 1;
  }

 private:
  void poll(const char* for_what, const std::function<bool()>& holds) {
    for (int looks = 0; !holds(); ++looks) {
      world_.require(looks < 100'000, std::string("waited in vain for ") + for_what);
      world_.sleep(10'000);
    }
  }
  void expect_of(const MeetingEntries& entries, std::uint32_t meeting, std::uint32_t other) {
    Data found{};
    std::uint64_t token = 0;
    poll("a rank to come", [&] {
      const auto read = entries.read(static_cast<int>(other), found.data(), sizeof found);
      token = read.value_or(0);
      return read.has_value();
    });
    world_.require(token == other + 1, "the token has not arrived with the entry");
    world_.require(found == data_of(meeting, other), "the data have not arrived with the entry");
  }
  /// Its bytes must stay, and be replaced by zeros at last.
  void give_to_next_owner() {
    const auto& memory = handle_.attachment->pool->memory();
    std::array<unsigned char, ranks * MeetingEntries::bytes_of_rank> bytes, found;
    bytes.fill(0xab);
    memory.publish_bulk(memory_, bytes.data(), bytes.size());
    memory.full_fence();
    world_.sleep(10'000'000);
    memory.observe_bulk(found.data(), memory_, found.size());
    world_.require(found == bytes, "a word of the meeting arrives in memory that was freed");
    bytes.fill(0);
    memory.publish_bulk(memory_, bytes.data(), bytes.size());
    memory.full_fence();
  }

  World& world_;
  int rank_;
  std::uint32_t& number_;
  penstock_pool handle_;
  std::byte* memory_ = nullptr;
};

TEST(NcclMeeting, GathersDataAndLeavesMemoryAtRest) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("NCCL, a meeting", ranks);
  scenario.body = [&pool](World& world) {
    auto number = std::make_shared<std::uint32_t>(0);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      world.spawn(rank, [&world, &pool, number, rank] {
        Guest guest(world, pool, rank, *number);
        for (std::uint32_t meeting = 0; meeting < meetings; ++meeting) guest.take_part(meeting);
      });
    }
  };
  expect_held("NCCL meeting", "random schedules", explore(scenario, 60));
}

}  // namespace
}  // namespace penstock::sim
