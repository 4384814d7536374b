// Nonblocking collectives on memory without coherence: each rank has several outstanding calls,
// driven by itself at random moments, by a thread of its own, or by later blocking calls; they end
// in any order, and ranks die with calls outstanding.
#include "coll/queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "schedule/test_calls.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim::call_queue_test {
namespace {

using coll::CallQueue;
using coll::Collective;
using coll::Communicator;
using coll::QueuedCall;

constexpr std::uint32_t nodes = 3;
constexpr const coll::Shape& shape = small_shape;

struct Plan {
  std::uint64_t area = 0;
  std::vector<std::uint64_t> tokens;
  std::uint32_t opened = 0;
  std::vector<coll::TestCall> calls;
};

/// A call with its buffers.
struct Made {
  std::size_t number = 0;
  coll::Made own;
  std::vector<std::byte> in, out;
  QueuedCall queued;
};

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self) {
    pool_ = simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
    plan.tokens[self] = pool_->token();
    ++plan.opened;
  }

  void call_all() {
    const auto ranks = static_cast<std::uint32_t>(plan_.tokens.size());
    wait_until(world_, "the ranks", [&] { return plan_.opened == ranks || somebody_died(); });
    if (plan_.opened != ranks) return;
    comm_ = *Communicator::open(
        *pool_, {.area = plan_.area, .tokens = plan_.tokens, .self = self_, .shape = shape});
    queue_ = std::make_unique<CallQueue>(*comm_);
    std::thread helper;
    if (one_in(2)) helper = std::thread([this] { help(); });
    for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
      one_in(4) ? call_blocking(i) : begin(i);
      for (std::uint64_t looks = world_.random() % 4; looks > 0; --looks) queue_->advance();
      if (one_in(3)) wait_for_one();
    }
    while (!begun_.empty()) wait_for_one();
    world_.require(queue_->outstanding() == 0, "a call is still outstanding");
    through_ = true;
    if (helper.joinable()) helper.join();
    comm_->leave();
  }

 private:
  bool one_in(std::uint64_t times) { return world_.random() % times == 0; }
  bool somebody_died() const { return world_.victim() != nullptr && world_.victim()->dead; }
  /// Plays the program's thread that drives queues.
  void help() {
    while (!through_) {
      queue_->advance();
      world_.sleep(1000);
    }
  }
  std::shared_ptr<Made> make_call(std::size_t number) {
    auto made = std::make_shared<Made>();
    const coll::TestCall& w = plan_.calls[number];
    made->number = number;
    made->own = make(w, self_);
    made->in = made->own.input;
    made->out = made->own.output;
    made->queued.call = {.name = name_of(w.collective),
                         .problem = &made->own.problem,
                         .plan = comm_->plan(made->own.problem),
                         .input = made->in.data(),
                         .output = made->own.problem.in_place ? made->in.data() : made->out.data(),
                         .arithmetic = &arithmetic_};
    return made;
  }
  void begin(std::size_t number) {
    auto made = make_call(number);
    const auto prepared = queue_->prepare(made->queued);
    world_.require(prepared.has_value(), prepared ? "" : prepared.error().message);
    queue_->push({made, &made->queued});
    begun_.push_back(std::move(made));
  }
  void call_blocking(std::size_t number) {
    const auto made = make_call(number);
    const auto done = queue_->run(made->queued.call);
    for (const auto& before : begun_)
      world_.require(before->queued.over.load(), "a call was overtaken");
    done ? check(*made) : died(done.error(), number);
  }
  void wait_for_one() {
    if (begun_.empty()) return;
    const std::size_t which = world_.random() % begun_.size();
    const auto made = begun_[which];
    queue_->wait("a wait", [&] { return made->queued.over.load(); });
    begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(which));
    made->queued.error ? died(*made->queued.error, made->number) : check(*made);
  }
  void check(const Made& done) {
    world_.require(!failed_ || done.number < failed_at_, "a call after a failure did not fail");
    const coll::TestCall& w = plan_.calls[done.number];
    const std::vector<coll::Made> made = coll::make_all(w);
    const auto wrong = check_result(w, made, self_, done.own.problem.in_place ? done.in : done.out);
    world_.require(wrong.empty(),
                   fmt::format("call {}, {}: {}", done.number, name_of(w.collective), wrong));
  }
  void died(const Error& error, std::size_t number) {
    world_.require(error.code == ErrorCode::peer_dead && somebody_died(), error.message);
    const std::string name = fmt::format("rank {} (pid", world_.victim()->number);
    const bool named = error.message.find(name) != std::string::npos;
    world_.require(named || error.message.ends_with(" left"), error.message);
    world_.require(!failed_ || error.message == message_, "another error: " + error.message);
    if (!failed_) message_ = error.message;
    failed_ = true;
    failed_at_ = std::min(failed_at_, number);
  }

  World& world_;
  Plan& plan_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<CallQueue> queue_;
  coll::WordArithmetic arithmetic_;
  std::vector<std::shared_ptr<Made>> begun_;  ///< in the order of their calls
  bool through_ = false, failed_ = false;
  std::size_t failed_at_ = ~std::size_t{0};  ///< the first call that is known to have failed
  std::string message_;
};

Scenario calls(const SimulatedPool& pool, std::uint64_t area, std::uint32_t ranks,
               std::uint32_t number, std::uint32_t victim = ~0u) {
  Scenario scenario = pool.scenario(fmt::format("queued collectives of {} ranks", ranks), nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, area, ranks, number, victim](World& world) {
    auto plan = std::make_shared<Plan>();
    plan->area = area;
    plan->tokens.resize(ranks);
    std::mt19937_64 random(world.random());
    for (std::uint32_t i = 0; i < number; ++i) {
      plan->calls.push_back(coll::draw_call(coll::any_collective(random), ranks, random));
      plan->calls.back().salt = static_cast<std::uint32_t>(random());
    }
    spawn_ranks<Rank>(world, pool, plan, nodes, victim);
  };
  return scenario;
}

TEST(QueuedCollectives, GiveWhatIsPromised) {
  for (const std::uint32_t ranks : {2u, 3u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks);
    const Scenario scenario = calls(pool, area, ranks, 8);
    expect_held("queued collectives", "random schedules", explore(scenario, 40));
    expect_held("queued collectives", "random schedules",
                explore(with_lasting_copies(scenario), 30));
  }
}

TEST(QueuedCollectives, ADeathFailsAllThatIsOutstanding) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  expect_held("queued collectives", "crash points",
              crash_everywhere(calls(pool, area, 3, 5, 2), 120));
}

}  // namespace
}  // namespace penstock::sim::call_queue_test
