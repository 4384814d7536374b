// Ranks flood each other with messages before any receives: what each keeps is bounded, and every
// request ends, even if a rank dies, leaves or is stopped.
#include <gtest/gtest.h>

#include <deque>

#include "base/environment_guard.hpp"
#include "messages/messenger.hpp"
#include "sim/tests/ranks.hpp"

namespace penstock::sim::backpressure_test {
namespace {

using messages::Messenger;
using messages::Request;

/// The smallest limit, and the bytes that a sender has in flight when it is told: a ring of 1,024
/// lines and 8 cells of 4 KiB, with the overhead of keeping them.
constexpr std::uint64_t limit = 64 << 10, on_its_way = 160 << 10;

struct Plan {
  std::uint32_t ranks = 2;
  std::uint32_t messages = 240;
  bool one_tag = false;
  bool receives = true;  ///< whether the last rank receives; otherwise it leaves without receiving
};

/// Known to all ranks.
struct Meeting {
  explicit Meeting(const Plan& the_plan)
      : plan(the_plan), addresses(plan.ranks), opened(plan.ranks), ended(plan.ranks) {}
  Plan plan;
  std::vector<transport::Address> addresses;
  std::vector<bool> opened, ended;
  const Process* victim = nullptr;
  bool died() const { return victim != nullptr && victim->dead; }
  bool all(const std::vector<bool>& of) const {
    return std::all_of(of.begin(), of.end(), [](bool is) { return is; });
  }
};

std::uint64_t bytes_of(std::uint32_t i) {
  return i % 11 == 5  ? 9000
         : i % 3 == 0 ? 24
                      : 1900;  // messages of 9,000 bytes are announced from
                               // the beginning
}

std::vector<std::byte> content(std::uint32_t from, std::uint32_t to, std::uint32_t i) {
  return std::vector<std::byte>(bytes_of(i), static_cast<std::byte>(7 * from + 3 * to + i));
}

class Flooding {
 public:
  Flooding(World& world, const SimulatedPool& simulated, Meeting& meeting, std::uint32_t self)
      : world_(world),
        meeting_(meeting),
        plan_(meeting.plan),
        self_(self),
        lease_ns_(simulated.lease_ns(world)) {
    pool_ = simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
    arena_ = SimulatedPool::open_arena(world, *pool_);
    auto opened = Messenger::open(*arena_, {.self = self, .ranks = plan_.ranks});
    world.require(opened.has_value(), opened ? "" : opened.error().message);
    messenger_ = std::move(*opened);
    meeting.addresses[self] = messenger_->address();
    meeting.opened[self] = true;
  }

  void run() {
    world_.until([&] { return meeting_.all(meeting_.opened) || meeting_.died(); });
    const bool receives = self_ + 1 < plan_.ranks || plan_.receives;
    for (const std::uint32_t to : others(self_, plan_.ranks)) meet(to);
    for (std::uint32_t i = 0; i < plan_.messages; ++i) {
      for (Flow& flow : flows_) send(flow, i);
      if (i % 8 == 0) messenger_->progress();
    }
    for (int look = 0; look < 300; ++look) go_on();
    const std::uint64_t most = limit + (plan_.ranks - 1) * on_its_way;
    world_.require(messenger_->peak_unexpected_bytes() <= most,
                   fmt::format("{} bytes are kept", messenger_->peak_unexpected_bytes()));
    if (receives) receive_all();
    meeting_.ended[self_] = true;
    // sends end when they are received
    if (plan_.receives)
      while (!meeting_.all(meeting_.ended) && !meeting_.died()) go_on();
    // a death is noticed by its lease; a rank that closes before leaves its memory to the job's
    // reclaim
    const std::uint64_t found_ns = meeting_.died() ? 3 * lease_ns_ : 0;
    for (const std::uint64_t until = world_.now_ns() + found_ns; world_.now_ns() < until;
         world_.sleep(1'000'000))
      messenger_->progress();
    messenger_.reset();
    arena_.reset();
    pool_.reset();
  }

 private:
  struct Flow {
    std::uint32_t peer;
    bool met = false;
    std::vector<std::vector<std::byte>> out, in;
    std::vector<Request> sent, received;
  };

  void meet(std::uint32_t to) {
    Flow& flow = flows_.emplace_back();
    flow.peer = to;
    flow.out.resize(plan_.messages);
    flow.in.resize(plan_.messages);
    flow.sent.resize(plan_.messages);
    flow.received.resize(plan_.messages);
    flow.met = meeting_.opened[to] && messenger_->meet(to, meeting_.addresses[to]).has_value();
    world_.require(flow.met || may_fail(), "the peer cannot be met");
  }
  /// A rank died, or leaves according to the plan.
  bool may_fail() const { return meeting_.died() || !plan_.receives; }
  void go_on() {
    if (!messenger_->progress()) world_.yield();
  }
  void send(Flow& flow, std::uint32_t i) {
    flow.out[i] = content(self_, flow.peer, i);
    if (flow.met)
      messenger_->send(flow.peer, plan_.one_tag ? 0 : i, flow.out[i].data(), flow.out[i].size(),
                       flow.sent[i]);
    else
      flow.sent[i].done = true;
  }
  void receive_all() {
    for (Flow& flow : flows_) {
      for (std::uint32_t n = 0; n < plan_.messages; ++n) {
        const std::uint32_t i = plan_.one_tag ? n : plan_.messages - 1 - n;
        flow.in[i].resize(bytes_of(i));
        messenger_->receive(flow.peer, plan_.one_tag ? 0 : i, flow.in[i].data(), flow.in[i].size(),
                            flow.received[i]);
      }
    }
    for (Flow& flow : flows_) {
      for (std::uint32_t i = 0; i < plan_.messages; ++i) {
        finish(flow.received[i]);
        finish(flow.sent[i]);
        world_.require(!flow.received[i].result || flow.in[i] == content(flow.peer, self_, i),
                       fmt::format("message {} from {} is wrong", i, flow.peer));
      }
    }
  }
  void finish(const Request& request) {
    while (!request.done) go_on();
    world_.require(
        request.result || (may_fail() && request.result.error().code == ErrorCode::peer_dead),
        request.result ? "" : request.result.error().message);
  }

  World& world_;
  Meeting& meeting_;
  const Plan plan_;
  std::uint32_t self_;
  std::uint64_t lease_ns_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  std::unique_ptr<Messenger> messenger_;
  std::deque<Flow> flows_;
};

Scenario flood(const SimulatedPool& pool, const std::string& name, const Plan& plan,
               std::uint32_t victim = ~0u) {
  Scenario scenario = pool.scenario("back-pressure, " + name, plan.ranks);
  scenario.max_steps = 40'000'000;
  scenario.body = [&pool, plan, victim](World& world) {
    auto meeting = std::make_shared<Meeting>(plan);
    for (std::uint32_t i = 0; i < plan.ranks; ++i) {
      Process& process =
          world.spawn(i, [&world, &pool, meeting, i] { Flooding(world, pool, *meeting, i).run(); });
      if (i != victim) continue;
      world.mark_victim(process);
      meeting->victim = &process;
    }
  };
  scenario.after = [&pool](World& world) { expect_clean(world, pool); };
  return scenario;
}

class BackPressure : public testing::Test {
 protected:
  base::EnvironmentGuard bound_{"PENSTOCK_UNEXPECTED_BYTES", "64K"};
};

TEST_F(BackPressure, TwoThatFloodEachOtherKeepLittle) {
  const auto pool = pool_with_endpoints();
  expect_held("back-pressure", "random schedules", explore(flood(*pool, "two", {}), 6));
  const Scenario in_order = flood(*pool, "one tag", {.one_tag = true});
  expect_held("back-pressure", "random schedules", explore(in_order, 6));
  expect_held("back-pressure", "random schedules", explore(with_lasting_copies(in_order), 2));
}

TEST_F(BackPressure, SoDoThree) {
  const auto pool = pool_with_endpoints();
  expect_held("back-pressure", "random schedules",
              explore(flood(*pool, "three", {.ranks = 3, .messages = 150}), 3));
}

TEST_F(BackPressure, LeavingReceiverEndsPendingSends) {
  const auto pool = pool_with_endpoints();
  expect_held("back-pressure", "random schedules",
              explore(flood(*pool, "a receiver leaves", {.receives = false}), 6));
}

}  // namespace
}  // namespace penstock::sim::backpressure_test
