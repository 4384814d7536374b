// A window call's guarantee holds when it returns, although its caller does not touch the pool
// again: no later operation may be what publishes its stores.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/window_pair.hpp"
#include "window/window.hpp"

namespace penstock::sim::window_calls_test {
namespace {

using window::Extent;

constexpr std::uint64_t segment_bytes = 3000;
constexpr Extent piece{100, 1500};  ///< many lines, the first and the last in part

/// How rank 0 puts, or how rank 1 lets it get.
enum class Way { unlock, flush, flush_all, complete, sync, sync_after_flush, post };
constexpr Way ways[] = {Way::unlock,           Way::flush, Way::flush_all, Way::complete, Way::sync,
                        Way::sync_after_flush, Way::post};

class Rank : public PairRank {
 public:
  using PairRank::PairRank;

  void put_by(Way way, std::byte value) {
    const std::vector<std::byte> data(piece.bytes, value);
    if (way == Way::complete) {
      must(window_->start(one_));
      must(window_->put(1, {&piece, 1}, data.data()));
      return must(window_->complete());
    }
    const bool all = way == Way::flush_all;
    must(all ? window_->lock_all(window::no_check)
             : window_->lock(1, sync::Hold::shared, window::no_check));
    must(window_->put(1, {&piece, 1}, data.data()));
    if (way != Way::unlock) must(all ? window_->flush_all() : window_->flush(1));
    if (way == Way::unlock) must(window_->unlock(1));
  }
  void put_at(std::uint64_t at) {
    const std::uint64_t value = at;
    const Extent word{at, sizeof value};
    must(window_->lock(1, sync::Hold::shared));
    must(window_->put(1, {&word, 1}, &value));
    must(window_->unlock(1));
  }
  void end(Way way) {
    if (way == Way::flush_all) must(window_->unlock_all());
    if (way == Way::flush || way == Way::sync_after_flush) must(window_->unlock(1));
  }
  void get(Way way, std::byte expected) {
    std::vector<std::byte> data(piece.bytes);
    must(way == Way::post ? window_->start(one_)
                          : window_->lock(1, sync::Hold::shared, window::no_check));
    must(window_->get(1, {&piece, 1}, data.data()));
    check(data, expected);
    must(way == Way::post ? window_->complete() : window_->unlock(1));
  }
  void open_to_the_other() { must(window_->post(zero_)); }
  void wait() { must(window_->wait()); }
  void store(std::byte value) {
    std::vector<std::byte> before(piece.bytes);
    std::byte* const at = window_->segment(1) + piece.at;
    pool_->memory().load_bulk(before.data(), at, piece.bytes);  // stores fetch their lines
    std::fill_n(at, piece.bytes, value);
  }
  void find(Way way, std::byte expected) {
    const bool locks = way != Way::complete && way != Way::sync_after_flush;
    if (locks) must(window_->lock(1, sync::Hold::shared, window::no_check));
    std::vector<std::byte> data(piece.bytes);
    pool_->memory().load_bulk(data.data(), window_->segment(1) + piece.at, piece.bytes);
    check(data, expected);
    if (locks) must(window_->unlock(1));
  }

 private:
  void check(const std::vector<std::byte>& data, std::byte expected) {
    const auto wrong = std::find_if(data.begin(), data.end(),
                                    [expected](std::byte byte) { return byte != expected; });
    world_.require(wrong == data.end(),
                   fmt::format("step {}: wrong from byte {} on", plan_.step, wrong - data.begin()));
  }

  const std::vector<std::uint32_t> zero_{0}, one_{1};
};

bool gets(Way way) {
  return way == Way::sync || way == Way::post;
}

/// Four steps in a round: rank 1 is ready; rank 0 has put, or got; rank 1 has looked; both go on.
void origin(Rank& rank, Way way, std::uint32_t round) {
  const std::uint32_t step = 4 * round;
  const auto value = static_cast<std::byte>(round + 1);
  if (way != Way::post) rank.await(step + 1);
  if (gets(way)) {
    rank.get(way, value);
    return rank.done(step + 4);
  }
  rank.put_by(way, value);
  rank.done(step + 2);
  rank.await(step + 3);
  rank.end(way);
  rank.done(step + 4);
}

void target(Rank& rank, Way way, std::uint32_t round) {
  const std::uint32_t step = 4 * round;
  const auto value = static_cast<std::byte>(round + 1);
  if (gets(way)) rank.store(value);
  if (way == Way::complete || way == Way::post) rank.open_to_the_other();
  if (way == Way::sync) rank.sync();
  if (way != Way::post) rank.done(step + 1);
  if (way == Way::post && round % 2 == 1)
    rank.await(step + 4);  // it computes; the other needs no call
  if (way == Way::complete || way == Way::post)
    rank.wait();
  else if (way != Way::sync)
    rank.await(step + 2);
  if (way == Way::sync_after_flush) rank.sync();
  if (!gets(way)) {
    rank.find(way, value);
    if (way == Way::complete) rank.await(step + 2);
    rank.done(step + 3);
  }
  rank.await(step + 4);
}

TEST(WindowCalls, HoldWhatTheyPromiseWhenTheyReturn) {
  SimulatedPool pool;
  pool.format_arena();
  const PairPlan empty{place_window(pool, std::array{std::uint64_t{0}, segment_bytes})};
  Scenario scenario = pool.scenario("window calls", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&](World& world) {
    auto plan = std::make_shared<PairPlan>(empty);
    for (std::uint32_t self = 0; self < 2; ++self) {
      world.spawn(self, [&world, &pool, plan, self] {
        Rank rank(world, pool, *plan, self);
        for (std::uint32_t round = 0; round < 2 * std::size(ways); ++round)
          (self == 0 ? origin : target)(rank, ways[round % std::size(ways)], round);
        rank.leave();
      });
    }
  };
  expect_held("window", "random schedules", explore(scenario, 60));
  expect_held("window", "random schedules", explore(with_lasting_copies(scenario), 20));
}

/// A rank that asks for a range only waits for the answer: the checks for dead ranks and the report
/// of the wait, which would publish the question, come later.
TEST(WindowCalls, AnswersRangeRequestAtOnce) {
  constexpr std::uint64_t large = 64 << 10, prompt_ns = 10'000'000;
  SimulatedPool pool;
  pool.format_arena();
  const PairPlan empty{place_window(pool, std::array{std::uint64_t{0}, large})};
  Scenario scenario = pool.scenario("window, questions", 2);
  scenario.swarm = false;
  scenario.faults.hold_unordered = true;
  scenario.body = [&](World& world) {
    auto plan = std::make_shared<PairPlan>(empty);
    world.spawn(0, [&world, &pool, plan] {
      Rank rank(world, pool, *plan, 0);
      for (std::uint32_t round = 0; round < 4; ++round) {
        const std::uint64_t begin = base::now_ns();
        rank.put_at(round * (large / 4));
        world.require(base::now_ns() - begin < prompt_ns, "the answer came late");
      }
      rank.done(1);
      rank.leave();
    });
    world.spawn(1, [&world, &pool, plan] {
      Rank rank(world, pool, *plan, 1);
      rank.serve_until(1);
      rank.leave();
    });
  };
  expect_held("window", "random schedules", explore(scenario, 10));
}

}  // namespace
}  // namespace penstock::sim::window_calls_test
