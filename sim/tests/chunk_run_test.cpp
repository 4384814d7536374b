// Chunks of a message by one launch on each rank (gpu/chunk_run.hpp), on memory without coherence:
// the code of the kernel itself, by a block of two threads out of step. Its stores reach the host's
// caches late and in any order, and the hosts' threads write back and invalidate, as the channels
// of plugins/nccl do.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gpu/chunk_run.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/fused_block.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim::chunk_run_test {
namespace {

constexpr std::uint64_t slots = 4, slot_bytes = 4 * 64, chunk_bytes = 200, chunks = 12;
constexpr std::uint64_t sent_at = 0, received_at = 64;  ///< words of the area: chunks so far

struct Message : Meeting {
  using Meeting::Meeting;
  bool given_up = false;  ///< the receiver lets its launch go instead of receiving the last chunk
};

class Rank : PlanRank<Message> {
 public:
  Rank(World& world, const SimulatedPool& simulated, Message& message, std::uint32_t self)
      : PlanRank(world, simulated, message, self),
        block_{.memory = pool_->memory(),
               .pool = pool_->base(),
               .pool_bytes = pool_->info().bytes,
               .pause = [this] { world_.yield(); },
               .through_caches = true,
               .random = std::mt19937_64(world.random())} {}

  void call_all() {
    if (!await_all_ranks()) return;
    for (std::uint64_t k = 0; k < chunks; ++k) {
      std::byte* const own = data_.data() + k * chunk_bytes;
      if (self_ == 0) std::fill_n(own, chunk_bytes, value_of(k));
      ring_[k] = self_ == 0 ? gpu::ChunkMove{slot(k), own, chunk_bytes}
                            : gpu::ChunkMove{own, slot(k), chunk_bytes};
    }
    if (self_ == 0) pool_->memory().invalidate(slot(0), slots * slot_bytes);
    pool_->memory().load_fence();
    go_ = self_ == 0 ? slots : 0;
    std::array<std::thread, fused_block_threads> threads;
    for (std::uint32_t i = 0; i < threads.size(); ++i)
      threads[i] = std::thread([this, i] { run(i); });
    self_ == 0 ? send() : receive();
    for (std::thread& thread : threads) thread.join();
    if (self_ == 1) check();
  }

 private:
  static std::byte value_of(std::uint64_t chunk) { return static_cast<std::byte>(chunk + 1); }
  std::byte* slot(std::uint64_t chunk) const {
    const std::uint64_t begin = coll::Communicator::zeroed_bytes(2, plan_.shape);
    return pool_->base() + plan_.area + begin + chunk % slots * slot_bytes;
  }
  std::byte* word(std::uint64_t at) const { return pool_->base() + plan_.area + at; }

  void run(std::uint32_t thread) {
    const FusedThread self(block_, thread);
    gpu::carry_chunks(
        gpu::ChunkRun{.ring = ring_.data(), .begin = 0, .end = chunks, .go = &go_, .done = &done_},
        self);
    ended_[thread] = true;
    while (!ended_[1 - thread]) self.pause();  // whose fence covers the stores of both
    self.finish();
  }
  void await(const char* what, const std::function<bool()>& holds) const {
    wait_until(world_, what, holds);
  }
  void send() {
    const coherence::Memory& memory = pool_->memory();
    std::uint64_t sent = 0;
    const auto last = plan_.given_up ? chunks - 1 : chunks;
    await("the receiver", [&] {
      for (; sent < done_; ++sent) {
        memory.write_back(slot(sent), chunk_bytes);
        memory.store_fence();
        memory.publish_word(word(sent_at), sent + 1);
        memory.store_fence();
      }
      const std::uint64_t received = memory.observe_word(word(received_at));
      go_ = received + slots;
      return received >= last;
    });
    await("the launch", [&] { return done_ == chunks; });
  }
  void receive() {
    const coherence::Memory& memory = pool_->memory();
    const auto last = plan_.given_up ? chunks - 1 : chunks;
    for (std::uint64_t k = 0; k < last; ++k) {
      await("a chunk", [&] { return memory.observe_word(word(sent_at)) > k; });
      memory.invalidate(slot(k), chunk_bytes);
      memory.load_fence();
      go_ = k + 1;
      await("its copy", [&] { return done_ > k; });
      memory.publish_word(word(received_at), k + 1);
      memory.store_fence();
    }
    if (plan_.given_up) go_ = gpu::released_word;
  }
  void check() const {
    for (std::uint64_t k = 0; k < chunks; ++k)
      for (std::uint64_t i = 0; i < chunk_bytes; ++i) {
        const bool is_let_go = plan_.given_up && k + 1 == chunks;
        world_.require(data_[k * chunk_bytes + i] == (is_let_go ? std::byte{0} : value_of(k)),
                       fmt::format("chunk {} has a wrong byte", k));
      }
  }

  FusedBlock block_;
  std::vector<gpu::ChunkMove> ring_{gpu::ChunkRun::entries};
  std::vector<std::byte> data_{chunks * chunk_bytes};
  std::uint64_t go_ = 0, done_ = 0;
  std::array<bool, fused_block_threads> ended_{};
};

Scenario passing(const SimulatedPool& pool, std::uint64_t area, bool given_up) {
  Scenario scenario =
      pool.scenario(given_up ? "chunks by one launch, let go" : "chunks by one launch", 2);
  scenario.max_steps = 4'000'000;
  scenario.body = [&pool, area, given_up](World& world) {
    auto message = std::make_shared<Message>(area, 2);
    message->given_up = given_up;
    spawn_ranks<Rank>(world, pool, message, 2, ~0u);
  };
  return scenario;
}

TEST(ChunkRun, PassesChunksInTheirOrder) {
  SimulatedPool pool;
  const Scenario scenario = passing(pool, place_communicator(pool, 2), false);
  expect_held("chunks by one launch", "random schedules", explore(scenario, 60));
  expect_held("chunks by one launch", "random schedules",
              explore(with_lasting_copies(scenario), 60));
}

TEST(ChunkRun, MovesNothingOnceLetGo) {
  SimulatedPool pool;
  const Scenario scenario = passing(pool, place_communicator(pool, 2), true);
  expect_held("chunks by one launch", "random schedules", explore(scenario, 60));
}

}  // namespace
}  // namespace penstock::sim::chunk_run_test
