// A receiver is stopped for an hour while a sender waits for it: for credits of its ring, or for a
// fetch of its announced messages. If both are on one host, or are stopped together, the messages
// go on; otherwise the sender gets an error, and the receiver ends with an error.
#include <gtest/gtest.h>

#include "base/environment_guard.hpp"
#include "messages/messenger.hpp"
#include "sim/tests/hour.hpp"
#include "sim/tests/ranks.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim::stopped_receiver_test {
namespace {

using messages::Messenger;
using messages::Request;

constexpr std::uint32_t messages_of_all = 150;  ///< more than fit into a ring and the unexpected
                                                ///< messages
constexpr std::uint64_t ns_a_s = 1'000'000'000;

std::uint64_t bytes_of(std::uint32_t i) {
  return i % 11 == 5  ? 9000
         : i % 3 == 0 ? 24
                      : 1900;  // messages of 9,000 bytes are announced from
                               // the beginning
}
std::vector<std::byte> content(std::uint32_t i) {
  return std::vector<std::byte>(bytes_of(i), static_cast<std::byte>(i + 1));
}

/// Known to both, outside the pool.
struct Pair {
  Hour hour;
  bool same_host = false;  ///< the kernel of the sender's host knows that the receiver exists
  transport::Address addresses[2];
  bool opened[2] = {};
  std::uint32_t received = 0;
  bool notified = false;  ///< the sender has got the error of the receiver's end
  bool sender_ended = false;
};

class Side {
 public:
  Side(World& world, const SimulatedPool& simulated, Pair& pair, std::uint32_t self)
      : world_(world), pair_(pair), self_(self), lease_ns_(simulated.lease_ns(world)) {
    pool_ = simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
    arena_ = SimulatedPool::open_arena(world, *pool_);
    auto opened = Messenger::open(*arena_, {.self = self, .ranks = 2});
    world.require(opened.has_value(), opened ? "" : opened.error().message);
    messenger_ = std::move(*opened);
    pair.addresses[self] = messenger_->address();
    pair.opened[self] = true;
    world.until([&] { return pair.opened[1 - self]; });
    const auto met = messenger_->meet(1 - self, pair.addresses[1 - self]);
    world.require(met.has_value(), met ? "" : met.error().message);
  }

  /// The receiver: lets messages arrive for a while, and takes them in their order.
  void receive_all() {
    stop_within(world_, 10'000);
    for (std::uint64_t looks = world_.random() % 300; looks > 0; --looks) go_on();
    for (std::uint32_t i = 0; i < messages_of_all; ++i) {
      std::vector<std::byte> into(bytes_of(i));
      Request request;
      messenger_->receive(0, 0, into.data(), into.size(), request);
      while (!request.done) go_on();
      world_.require(request.result.has_value(),
                     request.result ? "" : request.result.error().message);
      world_.require(request.bytes == into.size() && into == content(i),
                     fmt::format("message {} is wrong", i));
      ++pair_.received;
    }
    while (!pair_.sender_ended) go_on();
  }

  void send_all() {
    std::vector<std::vector<std::byte>> out(messages_of_all);
    std::vector<Request> sent(messages_of_all);
    for (std::uint32_t i = 0; i < messages_of_all; ++i) {
      out[i] = content(i);
      messenger_->send(1, 0, out[i].data(), out[i].size(), sent[i]);
      if (i % 8 == 0) messenger_->progress();
    }
    for (const Request& each : sent) {
      while (!each.done) go_on();
      note(each);
    }
    ask_until_all_came_or_notified();
    if (pair_.notified)
      world_.require(fails_at_once(), "a send succeeded after the receiver's end was reported");
    pair_.sender_ended = pair_.hour.taken = true;
  }

 private:
  void go_on() {
    if (messenger_->progress()) return;
    pair_.hour.begun && !pair_.hour.over ? world_.sleep(ns_a_s / 4) : world_.yield();
  }
  void note(const Request& request) {
    if (request.result) return;
    const Error& error = request.result.error();
    world_.require(pair_.hour.begun && !pair_.same_host, "told of an end: " + error.message);
    world_.require(error.code == ErrorCode::peer_dead &&
                       error.message.find("rank 1 (pid") != std::string::npos,
                   error.message);
    pair_.notified = pair_.hour.given_up = true;
  }
  /// When all requests have ended well, its last messages may be on their way, or lie unreceived.
  void ask_until_all_came_or_notified() {
    while (pair_.received < messages_of_all && !pair_.notified) {
      go_on();
      if (!pair_.hour.begun || pair_.same_host) continue;
      world_.sleep(lease_ns_ / 10);
      (void)fails_at_once();
    }
  }
  bool fails_at_once() {
    Request request;
    messenger_->send(1, 1, nullptr, 0, request);
    if (!request.done)
      world_.require(messenger_->cancel(request), "an empty message cannot be cancelled");
    if (!request.done) return false;
    note(request);
    return !request.result;
  }

  World& world_;
  Pair& pair_;
  std::uint32_t self_;
  std::uint64_t lease_ns_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  std::unique_ptr<Messenger> messenger_;
};

struct Case {
  const char* name;
  Stopped who;
  bool same_host;
};

Scenario an_hour_of_waiting(const SimulatedPool& pool, const Case& of) {
  Scenario scenario = pool.scenario(fmt::format("an hour of back-pressure, {}", of.name), 2);
  scenario.max_steps = 40'000'000;
  scenario.body = [&pool, of](World& world) {
    auto pair = std::make_shared<Pair>();
    pair->same_host = of.same_host;
    pair->hour.taken = of.same_host;  // no process takes anything
    Process& receiver =
        world.spawn(0, [&world, &pool, pair] { Side(world, pool, *pair, 1).receive_all(); });
    receiver.may_exit = true;
    pair->hour.late = &receiver;
    world.spawn(of.same_host ? 0 : 1,
                [&world, &pool, pair] { Side(world, pool, *pair, 0).send_all(); });
    spawn_clock(world, std::shared_ptr<Hour>(pair, &pair->hour), of.who);
    world.spawn(1, [&world, pair] {
      const Hour& hour = pair->hour;
      wait_until(world, "it to be stopped", [&] { return hour.begun || gone(*hour.late); });
      while (hour.begun && !hour.over) world.sleep(ns_a_s);
      wait_until(world, "both to end", [&] { return gone(*hour.late) && pair->sender_ended; });
      world.require(pair->notified || pair->received == messages_of_all, "messages are lost");
      if (hour.begun) await_its_end(world, hour);
      world.require(pair->notified || !hour.late->dead,
                    "the receiver has ended, and the sender was not told");
    });
  };
  scenario.after = [&pool](World& world) { expect_clean(world, pool); };
  return scenario;
}

class AnHourOfBackPressure : public testing::TestWithParam<Case> {};

TEST_P(AnHourOfBackPressure, LosesNothingInSilence) {
  const base::EnvironmentGuard bound("PENSTOCK_UNEXPECTED_BYTES", "64K");
  const auto pool = pool_with_endpoints({.lease_ms = usual_lease_ms});
  expect_held("back-pressure", "random schedules",
              explore(an_hour_of_waiting(*pool, GetParam()), 12));
}

INSTANTIATE_TEST_SUITE_P(Stopped, AnHourOfBackPressure,
                         testing::Values(Case{"of another host", Stopped::alone, false},
                                         Case{"of the same host", Stopped::alone, true},
                                         Case{"all of the host", Stopped::with_its_node, true}),
                         [](const auto& of) {
                           return std::string(of.param.same_host ? "OfTheSameHost"
                                                                 : "OfAnotherHost") +
                                  (of.param.who == Stopped::alone ? "Alone" : "WithItsNode");
                         });

}  // namespace
}  // namespace penstock::sim::stopped_receiver_test
