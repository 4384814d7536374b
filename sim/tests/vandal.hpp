// Words of a channel overwritten by a process that is none of its ends, in scenarios.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sim/tests/ranks.hpp"
#include "transport/endpoint_table.hpp"
#include "transport/layout.hpp"

namespace penstock::sim {

/// Runs beside a job whose rank 0 sends to rank 1.
class Vandal {
 public:
  Vandal(World& world, const SimulatedPool& simulated, const JobState& job)
      : job_(job),
        pool_(simulated.attach(world, {.job = "sim"})),
        arena_(SimulatedPool::open_arena(world, *pool_)),
        table_(transport::EndpointTable::open(*arena_)) {}

  const coherence::Memory& memory() const { return pool_->memory(); }
  /// The memory at this multiple of transport::channel_alignment.
  std::byte* at(std::uint64_t number) const {
    return pool_->base() + number * transport::channel_alignment;
  }
  /// The word that announces the channel.
  std::byte* word() const {
    return table_->find_word(job_.addresses[1].slot, job_.addresses[0].slot);
  }
  /// The channel, once it is announced.
  std::byte* channel() const {
    return pool_->base() + transport::MailboxWord::offset(memory().observe_word(word()));
  }
  void overwrite(std::byte* which, std::uint64_t with) const {
    memory().publish_word(which, with);
    memory().full_fence();
  }

 private:
  const JobState& job_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  Result<transport::EndpointTable> table_;
};

/// Looks until `words` words have arrived, 20 s at most.
inline void await_words(World& world, Rank& rank, std::uint32_t words) {
  const std::uint64_t until = world.now_ns() + 20'000'000'000;
  rank.look_until([&] {
    world.require(world.now_ns() < until, fmt::format("{} words", rank.words_received()));
    return rank.words_received() == words;
  });
}

/// Rank 0 sends words; `damage` is done before rank 1 has heard of them.
inline Scenario damaged_unnoticed(const SimulatedPool& pool, const std::string& name,
                                  std::uint32_t words,
                                  const std::function<void(World&, const Vandal&)>& damage) {
  struct Stages {
    JobState job{2};
    bool sent = false, damaged = false, over = false;
  };
  Scenario scenario = pool.scenario(name, 3);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool, words, damage](World& world) {
    auto all = std::make_shared<Stages>();
    world.spawn(0, [&world, &pool, all, words] {
      Rank rank(world, pool, {0, {1}, {}, 0});
      all->job.enter(rank, 0);
      world.until([&] { return all->job.opened[1]; });
      rank.meet(all->job.addresses);
      for (std::uint32_t n = 0; n < words; ++n) world.require(rank.inject_word(), "no credit");
      world.memory().full_fence();
      all->sent = true;
      rank.look_until([&] { return all->over; });
      rank.leave();
    });
    world.spawn(1, [&world, &pool, all, words] {
      Rank rank(world, pool, {1, {}, {0}, 0});
      all->job.enter(rank, 1);
      world.until([&] { return all->damaged; });
      await_words(world, rank, words);
      all->over = true;
      rank.leave();
    });
    world.spawn(2, [&world, &pool, all, damage] {
      const Vandal vandal(world, pool, all->job);
      world.until([&] { return all->sent; });
      damage(world, vandal);
      all->damaged = true;
    });
  };
  return scenario;
}

}  // namespace penstock::sim
