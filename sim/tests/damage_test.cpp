// A process writes into a channel of others: both ends get their messages or an error, and neither
// waits for ever. A process that was only stopped is not reported dead.
#include <gtest/gtest.h>

#include "base/environment_guard.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/sides.hpp"
#include "sim/tests/stops.hpp"
#include "sim/tests/vandal.hpp"

namespace penstock::sim {
namespace {

using transport::Address;

/// Counts messages; overwritten ones may arrive damaged.
class Counter final : public transport::EndpointCallbacks, transport::Arrival {
 public:
  explicit Counter(World&) {}
  ReceiveBuffer on_message(const transport::Message& message) override {
    if (message.payload != nullptr) {
      ++count;
      return {};
    }
    // the length was overwritten: truncates, as an MPI does
    bytes_.resize(std::min<std::uint64_t>(message.header.bytes, payload_bytes));
    iov_ = {bytes_.data(), bytes_.size()};
    return {.iov = &iov_, .iov_count = 1, .arrival = this};
  }
  void arrived() override { ++count; }
  void failed(const Error&) override { notified = true; }
  void on_sent(SendOp*) override { ++sent; }
  void on_send_failed(SendOp*, const Error&) override { notified = true; }
  void on_peer_dead(Peer, const std::string&) override { notified = true; }
  void on_peer_left(Peer, const std::string&) override { notified = true; }

  bool notified = false;
  std::size_t count = 0, sent = 0;

 private:
  std::vector<std::byte> bytes_;
  iovec iov_{};
};

constexpr std::array<std::uint64_t, 8> sizes = {8,  300,  payload_bytes, payload_bytes,
                                                20, 5000, 20'000,        payload_bytes};

struct Case {
  std::array<std::optional<Address>, 2> addresses;
  std::array<bool, 2> done{};
  std::size_t pause_before = sizes.size();  ///< message before which both rest for a while
  std::array<bool, 2> paused{};
  bool vandal_done = false;
  bool notified = false;
};

struct Talker : SideOf<Counter> {
  Talker(World& world, const SimulatedPool& simulated, Case& all, std::size_t number)
      : SideOf(world, simulated, 20'000'000) {
    all.addresses[number] = endpoint->address();
    world.until([&] { return all.addresses[1 - number] || gone(*world.processes()[1 - number]); });
    const auto met = all.addresses[1 - number] ? endpoint->resolve(*all.addresses[1 - number])
                                               : tl::unexpected(Error{});
    callbacks.notified = !met;
    peer = met.value_or(0);
  }
  Peer peer = 0;
};

/// Long enough that each looks at the other's words about its channel.
void pause(World& world, Talker& self) {
  for (int looks = 0; looks < 1500; ++looks) {
    self.endpoint->progress();
    world.sleep(3'000'000);
  }
}

/// Sends and receives one message of each size; then polls until the other has too, as a rank does
/// that waits in a barrier.
void talk(World& world, const SimulatedPool& simulated, Case& all, std::size_t number) {
  Talker self(world, simulated, all, number);
  const std::vector<std::byte> payload(payload_bytes, right);
  std::array<SendOp, sizes.size()> ops;
  for (std::size_t i = 0; i < sizes.size() && !self.callbacks.notified; ++i) {
    if (i == all.pause_before) {
      pause(world, self);
      all.paused[number] = true;
    }
    ops[i].header = {1, 2, sizes[i], 3};
    ops[i].iov[0] = {const_cast<std::byte*>(payload.data()), sizes[i]};
    ops[i].iov_count = 1;
    ops[i].notify_delivered = world.random() % 2 == 0;
    const auto complete = self.endpoint->send(self.peer, &ops[i]);
    if (!complete) break;
    self.callbacks.sent += *complete ? 1 : 0;
    if (world.random() % 2 == 0) self.endpoint->progress();
  }
  const auto done = [&] {
    const bool all_there =
        self.callbacks.count == sizes.size() && self.callbacks.sent == sizes.size();
    all.notified = all.notified || (self.callbacks.notified && !all_there);
    all.done[number] = all.done[number] || all_there || self.callbacks.notified;
    return self.callbacks.notified || (all.done[0] && all.done[1] && all.vandal_done);
  };
  for (int looks = 0; !done(); ++looks) {
    world.require(looks < 60'000,
                  fmt::format("{} of {} arrived, {} sent, and nobody is told", self.callbacks.count,
                              sizes.size(), self.callbacks.sent));
    if (self.endpoint->progress() == 0) world.sleep(looks < 1000 ? 1'000 : 200'000);
  }
}

/// A word of the channel from the first talker to the second, or of its announcement: its word in
/// the mailbox, and the entries that lead there.
std::byte* somewhere(World& world, const pool::Pool& pool, std::byte* word, std::byte* box) {
  using namespace transport;
  std::byte* channel = pool.base() + MailboxWord::offset(pool.memory().observe_word(word));
  ChannelHeader header;
  pool.memory().observe_line(&header, channel);
  if (header.magic == channel_magic && header.previous != 0 && world.random() % 2 == 0)
    channel = pool.base() + header.previous * channel_alignment;  // it has moved
  const std::uint64_t in_line = 8 * (world.random() % 8);
  switch (world.random() % 13) {
    case 0:
      return word;
    case 1:
      return box + TableLayout::directory;
    case 12:
      return box + TableLayout::latest;
    case 2:
    case 3:
      return channel + in_line;
    case 4:
      return channel + ChannelLayout::credits + in_line;
    case 5:
      return channel + ChannelLayout::position + in_line;
    case 6:
    case 7:
      return channel + ChannelLayout::flags + in_line;
    default:
      return channel + ChannelLayout(8, 32).line(world.random() % 24) + in_line;
  }
}

void damage(World& world, const SimulatedPool& simulated, Case& all) {
  const auto pool = simulated.attach(world, {.job = "sim"});
  const auto arena = SimulatedPool::open_arena(world, *pool);
  const auto table = transport::EndpointTable::open(*arena);
  world.until([&] { return all.addresses[0] && all.addresses[1]; });
  const std::uint32_t from = all.addresses[0]->slot, to = all.addresses[1]->slot;
  std::byte* word = nullptr;
  wait_until(world, "a channel", [&] {
    word = table->find_word(to, from);
    return word != nullptr && pool->memory().observe_word(word) != 0;
  });
  wait_until(world, "the pause", [&] {
    return all.pause_before == sizes.size() || all.paused[0] || all.paused[1] || all.notified;
  });
  // also before the receiver has found the channel
  const std::uint64_t most = world.random() % 2 == 0 ? 300 : 3;
  for (auto waits = world.random() % most; waits > 0; --waits) world.yield();
  pool->memory().publish_word(somewhere(world, *pool, word, table->tiles().box(to)),
                              world.random());
  pool->memory().store_fence();
  all.vandal_done = true;
}

Scenario overwritten_word(const SimulatedPool& simulated, bool pauses) {
  Scenario scenario = simulated.scenario("channel, a word of it overwritten", 3);
  scenario.max_steps = 20'000'000;
  scenario.body = [&simulated, pauses](World& world) {
    auto all = std::make_shared<Case>();
    if (pauses) all->pause_before = 1 + world.random() % (sizes.size() - 1);
    for (std::size_t number : {0, 1})
      world.spawn(static_cast<std::uint32_t>(number),
                  [&world, &simulated, all, number] { talk(world, simulated, *all, number); });
    world.spawn(2, [&world, &simulated, all] { damage(world, simulated, *all); });
  };
  return scenario;
}

TEST(Damage, NobodyWaitsForWhatWasOverwritten) {
  const auto pool = pool_with_endpoints();
  expect_held("channel", "random schedules", explore(overwritten_word(*pool, false), 800));
  const Scenario lasting = with_lasting_copies(overwritten_word(*pool, true));
  expect_held("channel", "random schedules", explore(lasting, 200));
}

/// Channels that move at once: the word may belong to the previous channel.
TEST(Damage, NoWaitForLinesOverwrittenBeforeMove) {
  const auto pool = pool_with_endpoints();
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  expect_held("channel", "random schedules", explore(overwritten_word(*pool, false), 300));
  const Scenario lasting = with_lasting_copies(overwritten_word(*pool, true));
  expect_held("channel", "random schedules", explore(lasting, 100));
}

/// A death while positions are published and read is noticed as usual.
Scenario one_dies(const SimulatedPool& simulated) {
  Scenario scenario = simulated.scenario("channel, one dies beside positions", 2);
  scenario.max_steps = 20'000'000;
  scenario.body = [&simulated](World& world) {
    auto all = std::make_shared<Case>();
    all->vandal_done = true;
    all->pause_before = 3;  // behind two long messages
    for (std::uint32_t number : {0, 1}) {
      Process& talker = world.spawn(
          number, [&world, &simulated, all, number] { talk(world, simulated, *all, number); });
      if (number == 0) world.mark_victim(talker);
    }
  };
  return scenario;
}

TEST(Damage, WhoDiesIsMissedAsEver) {
  const auto pool = pool_with_endpoints();
  expect_held("channel", "crash points", crash_everywhere(one_dies(*pool), 60));
}

/// Both are on one node, where a stopped process is known to live.
Scenario stopped(const SimulatedPool& simulated) {
  Scenario scenario = simulated.scenario("channel, an end is stopped for long", 1);
  scenario.max_steps = 20'000'000;
  scenario.body = [&simulated](World& world) {
    auto all = std::make_shared<Case>();
    for (std::size_t number : {0, 1})
      world.spawn(0, [&world, &simulated, all, number] {
        talk(world, simulated, *all, number);
        world.require(!all->notified, "somebody is blamed who was only stopped");
      });
    const std::size_t first = world.random() % 2;
    world.spawn(0, [&world, all, first] {
      world.until([&] { return all->addresses[0] && all->addresses[1]; });
      for (const std::size_t which : {first, 1 - first}) {
        Process& one = *world.processes()[which];
        stop_within(world, one, 600);
        const auto both = [&] { return all->done[0] && all->done[1]; };
        wait_until(world, "it to be stopped", [&] { return one.stopped || both(); });
        world.sleep(4'000'000'000);
        go_on(one);
      }
      all->vandal_done = true;
    });
  };
  return scenario;
}

TEST(Damage, NobodyIsBlamedWhoIsStopped) {
  const auto pool = pool_with_endpoints();
  expect_held("channel", "random schedules", explore(stopped(*pool), 60));
}

/// Nothing else tells the receiver that there is a channel.
TEST(Damage, AnAnnouncementThatWasOverwrittenComesAgain) {
  const auto pool = pool_with_endpoints();
  const Scenario scenario =
      damaged_unnoticed(*pool, "channel, an announcement overwritten", 1,
                        [](World&, const Vandal& vandal) { vandal.overwrite(vandal.word(), 0); });
  expect_held("channel", "random schedules", explore(scenario, 5));
}

}  // namespace
}  // namespace penstock::sim
