// Endpoints and their channels on memory without coherence: messages of every form, in both
// directions, through wraps of rings and cells, with processes and nodes that die anywhere.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "penstock/transport.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

using transport::Header;
using transport::Landing;
using transport::Peer;
using transport::SendOp;

void expect_held(const char* method, const Tally& tally) {
  report("channel", method, tally);
  EXPECT_TRUE(tally.held()) << tally.first_failure;
}

/// Length and contents of message `index` from one rank to another.
struct Message {
  std::uint32_t from, to, index;

  std::uint64_t mix(std::uint64_t i) const {
    std::uint64_t z =
        (std::uint64_t{from} << 40 | std::uint64_t{to} << 20 | index) * 0x9e3779b97f4a7c15u + i;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
  }
  /// Every form and each side of its limits; 20,000 and more go by cells.
  std::uint64_t bytes() const {
    constexpr std::uint64_t sizes[] = {8,  0,    32,   33,     88,     89,     500,   4'000,
                                       56, 9000, 8192, 16'384, 16'385, 20'480, 40'000};
    return sizes[mix(1) % std::size(sizes)];
  }
  std::vector<std::byte> payload() const {
    std::vector<std::byte> data(bytes());
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<std::byte>(mix(2 + i / 8) >> (i % 8 * 8));
    return data;
  }
  bool delivered_tells() const { return mix(3) % 3 == 0; }
  bool injected() const { return bytes() <= 4096 && mix(4) % 2 == 0; }
};

/// One rank: sends to some peers and receives from some, all at once.
class Rank final : public transport::Sink {
 public:
  struct Plan {
    std::uint32_t number;
    std::vector<std::uint32_t> to, from;
    std::uint32_t messages;
    bool scatter = false;  ///< all landings in two pieces
  };
  Rank(World& world, const SimulatedPool& simulated, const Plan& plan)
      : world_(world), plan_(plan) {
    pool_ = simulated.attach(world, {.rank = static_cast<std::int32_t>(plan.number), .job = "sim"});
    arena_ = SimulatedPool::open_arena(world, *pool_);
    open();
  }
  void open() {
    auto opened = transport::Endpoint::open(*arena_, *this, {.job = "sim"});
    world_.require(opened.has_value(), opened ? "" : opened.error().message);
    endpoint_ = std::move(*opened);
  }

  transport::Address address() const { return endpoint_->address(); }
  bool peer_died() const { return !dead_.empty(); }
  const std::string& death() const { return dead_; }

  /// `addresses`: of all ranks by number; those that never opened have generation 0.
  void meet(const std::vector<transport::Address>& addresses) {
    outgoing_.clear();
    for (const std::uint32_t to : plan_.to) {
      auto peer = endpoint_->resolve(addresses[to]);
      if (!peer) {  // gone already: an error and no hang
        refused_ = true;
        continue;
      }
      outgoing_.push_back({to, *peer, 0});
    }
    received_.assign(addresses.size(), 0);
  }
  void converse(const std::vector<transport::Address>& addresses) {
    meet(addresses);
    while (!finished()) {
      bool moved = false;
      for (Outgoing& out : outgoing_) moved = send_next(out) || moved;
      moved = endpoint_->progress() != 0 || moved;
      if (!moved) idle();
    }
    // Some deaths are found only by and by.
    for (int i = 0; i < 50 && !peer_died(); ++i) {
      if (endpoint_->progress() == 0) idle();
    }
  }
  /// All of it came and went, or somebody died.
  bool finished() const {
    if (peer_died() || refused_) return true;
    for (const Outgoing& out : outgoing_) {
      if (out.next < plan_.messages) return false;
    }
    for (const std::uint32_t from : plan_.from) {
      if (received_[from] < plan_.messages) return false;
    }
    return pending_.empty();
  }
  void progress() { endpoint_->progress(); }
  /// To the first of the plan; true when all of it is on its way.
  bool send_and_complete() { return send_next(outgoing_[0]); }
  bool all_complete() const { return pending_.empty(); }
  std::uint32_t received_from(std::uint32_t number) const { return received_[number]; }
  bool can_reach(const transport::Address& address) {
    return endpoint_->resolve(address).has_value();
  }
  void close() { endpoint_.reset(); }
  void leave() {
    endpoint_.reset();
    arena_.reset();
    pool_.reset();
  }

  void on_message(Peer, const Header& header, const void* payload) override {
    check(header, static_cast<const std::byte*>(payload));
  }
  Landing on_begin(Peer, const Header& header) override {
    auto* landing = new Arriving;
    landing->bytes.resize(header.bytes + 8, std::byte{0x5a});
    landing->iov[0] = {landing->bytes.data(), header.bytes / 2};
    landing->iov[1] = {landing->bytes.data() + header.bytes / 2, header.bytes - header.bytes / 2};
    const bool scattered = plan_.scatter || header.bytes % 3 == 0;
    if (!scattered) landing->iov[0].iov_len = header.bytes;
    return {landing->iov, scattered ? 2u : 1u, landing};
  }
  void on_arrived(Peer, const Header& header, void* cookie) override {
    const std::unique_ptr<Arriving> landing(static_cast<Arriving*>(cookie));
    check(header, landing->bytes.data());
    world_.require(landing->bytes[header.bytes] == std::byte{0x5a}, "written past the landing");
  }
  void on_receive_failed(Peer, void* cookie, const Error&) override {
    delete static_cast<Arriving*>(cookie);
  }
  void on_sent(SendOp* op) override { forget(op); }
  void on_send_failed(SendOp* op, const Error&) override { forget(op); }
  void on_peer_dead(Peer, const std::string& description) override { dead_ = description; }

 private:
  struct Outgoing {
    std::uint32_t to;
    Peer peer;
    std::uint32_t next;
  };
  struct Pending {
    SendOp op;
    std::vector<std::byte> payload;
  };
  struct Arriving {
    std::vector<std::byte> bytes;
    iovec iov[2];
  };

  void idle() { received_.size() > 32 ? world_.sleep(1'000'000) : world_.yield(); }
  bool send_next(Outgoing& out) {
    if (out.next == plan_.messages || peer_died()) return false;
    const Message message{plan_.number, out.to, out.next};
    const Header header{message.index, plan_.number, message.bytes(), 5};
    if (message.injected()) {
      const auto payload = message.payload();
      const auto sent = endpoint_->try_inject(out.peer, header, payload.data());
      world_.require(sent || sent.error().code == Code::peer_dead,
                     sent ? "" : sent.error().message);
      if (!sent || !*sent) return false;
    } else {
      if (pending_.size() > 3) return false;
      auto pending = std::make_unique<Pending>();
      pending->payload = message.payload();
      pending->op.header = header;
      pending->op.iov[0] = {pending->payload.data(), pending->payload.size()};
      pending->op.iov_count = 1;
      pending->op.notify_delivered = message.delivered_tells();
      const auto sent = endpoint_->send(out.peer, &pending->op);
      world_.require(sent || sent.error().code == Code::peer_dead,
                     sent ? "" : sent.error().message);
      if (!sent) return false;
      if (!*sent) pending_.push_back(std::move(pending));
    }
    ++out.next;
    return true;
  }
  void forget(SendOp* op) {
    std::erase_if(pending_, [op](const auto& pending) { return &pending->op == op; });
  }
  void check(const Header& header, const std::byte* payload) {
    const auto from = static_cast<std::uint32_t>(header.data);
    world_.require(from < received_.size(), "a message from nobody");
    const Message wanted{from, plan_.number, received_[from]++};
    world_.require(header.tag == wanted.index && header.kind == 5,
                   fmt::format("message {} in place of {}", header.tag, wanted.index));
    world_.require(header.bytes == wanted.bytes(), "a wrong length");
    const auto expected = wanted.payload();
    const auto wrong = std::mismatch(expected.begin(), expected.end(), payload).first;
    world_.require(wrong == expected.end(),
                   fmt::format("message {} from {} ({} bytes) is wrong from byte {} on", header.tag,
                               from, header.bytes, wrong - expected.begin()));
  }

  World& world_;
  Plan plan_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::vector<Outgoing> outgoing_;
  std::vector<std::uint32_t> received_;
  std::vector<std::unique_ptr<Pending>> pending_;
  std::string dead_;
  bool refused_ = false;
};

/// Small cells, so that few bytes wrap them; a pool whose endpoint table is there already.
std::unique_ptr<SimulatedPool> pool_with_endpoints(const PoolOptions& options = {}) {
  ::setenv("PENSTOCK_CELL", "4096", 1);
  ::setenv("PENSTOCK_CELLS", "8", 1);
  auto pool = std::make_unique<SimulatedPool>(options);
  pool->once([&](World& world) { Rank(world, *pool, {0, {}, {}, 0}).leave(); });
  return pool;
}

/// What all ranks of a job know: who is where.
struct Roll {
  explicit Roll(std::uint32_t ranks) : addresses(ranks), opened(ranks) {}
  void enter(const Rank& rank, std::uint32_t number) {
    addresses[number] = rank.address();
    opened[number] = true;
  }
  std::vector<transport::Address> addresses;
  std::vector<bool> opened;
  bool changed_hands = false;
};

void run_rank(World& world, const SimulatedPool& pool, Roll& roll, const Rank::Plan& plan) {
  Rank rank(world, pool, plan);
  roll.enter(rank, plan.number);
  // As by the launcher's exchange of addresses; who died before it never takes part.
  const auto all_there = [&] {
    for (std::size_t i = 0; i < roll.opened.size(); ++i) {
      if (!roll.opened[i] && !(world.victim() != nullptr && world.victim()->dead)) return false;
    }
    return true;
  };
  world.until(all_there);
  rank.converse(roll.addresses);
  if (rank.peer_died()) {
    const bool died = world.victim() != nullptr && world.victim()->dead;
    world.require(died, "taken for dead: " + rank.death());
    world.require(rank.death().find("rank 0 (pid") != std::string::npos, rank.death());
  }
  rank.leave();
}

std::vector<std::uint32_t> others(std::uint32_t self, std::uint32_t ranks) {
  std::vector<std::uint32_t> list;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    if (i != self) list.push_back(i);
  }
  return list;
}

/// Everybody sends to everybody. Rank r runs on node r % nodes.
Scenario conversation(const SimulatedPool& pool, const std::string& name, std::uint32_t ranks,
                      std::uint32_t nodes, std::uint32_t messages) {
  Scenario scenario = pool.scenario(name, nodes);
  scenario.most_steps = 6'000'000;
  scenario.body = [&pool, ranks, nodes, messages](World& world) {
    auto roll = std::make_shared<Roll>(ranks);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      Process& process = world.spawn(i % nodes, [&world, &pool, roll, i, ranks, messages] {
        run_rank(world, pool, *roll, {i, others(i, ranks), others(i, ranks), messages});
      });
      if (i == 0) world.mark_victim(process);
    }
  };
  return scenario;
}

/// All space is back, nobody is attached, and the pool serves as before.
void expect_clean(World& world, const SimulatedPool& simulated) {
  // Those of other nodes are dead for certain after a lease.
  for (int attempt = 0;; ++attempt) {
    auto pool = simulated.attach(world, {.rank = 0, .job = "later"});
    auto arena = SimulatedPool::open_arena(world, *pool);
    const auto stats = arena->stats();
    if (stats.objects == 1) break;  // the endpoint table
    world.require(attempt < 6, fmt::format("{} objects are left behind", stats.objects));
    world.sleep(simulated.lease_ns(world));
  }
}

TEST(Channel, MessagesOfEveryFormArriveInOrderAndWhole) {
  const auto pool = pool_with_endpoints();
  Scenario two = conversation(*pool, "channel, 2 ranks", 2, 2, 14);
  two.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("random schedules", explore(two, 40));
  Scenario three = conversation(*pool, "channel, 4 ranks on 3 nodes", 4, 3, 4);
  three.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("random schedules", explore(three, 15));
}

/// Two messages of several lines that arrive at once in scattered buffers: each has a staging
/// buffer of its own. (With one for all channels the second overwrote the first.)
TEST(Channel, ScatteredMessagesOfSeveralSendersDoNotMix) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, scattered from two", 3);
  scenario.most_steps = 6'000'000;
  scenario.body = [&](World& world) {
    auto roll = std::make_shared<Roll>(3);
    world.spawn(0, [&, roll] { run_rank(world, *pool, *roll, {0, {}, {1, 2}, 24, true}); });
    for (std::uint32_t i = 1; i < 3; ++i) {
      world.spawn(i, [&, roll, i] { run_rank(world, *pool, *roll, {i, {0}, {}, 24}); });
    }
  };
  expect_held("random schedules", explore(scenario, 60));
}

/// Only messages in lines: a ring of 1,024 lines goes round several times.
TEST(Channel, RingsWrap) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = conversation(*pool, "channel, wraps", 2, 2, 60);
  expect_held("random schedules", explore(scenario, 8));
}

TEST(Channel, SurvivorsAreToldWhoDiedAndAllSpaceComesBack) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = conversation(*pool, "channel, rank 0 dies", 3, 3, 3);
  scenario.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("crash points", crash_everywhere(scenario, 120));
}

/// After a death the pool serves another job with another number of ranks.
TEST(Channel, TheNextJobRunsWithAnotherNumberOfRanks) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = conversation(*pool, "channel, the next job", 2, 2, 2);
  const auto first_job = scenario.body;
  scenario.nodes = 3;
  scenario.body = [&, first_job](World& world) {
    first_job(world);
    auto roll = std::make_shared<Roll>(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      world.spawn(2, [&world, &pool, roll, i] {
        const auto& all = world.processes();
        world.until(
            [&] { return (all[0]->dead || all[0]->ended) && (all[1]->dead || all[1]->ended); });
        Rank rank(world, *pool, {i, others(i, 3), others(i, 3), 2});
        roll->enter(rank, i);
        world.until([&] { return roll->opened[0] && roll->opened[1] && roll->opened[2]; });
        rank.converse(roll->addresses);
        world.require(!rank.peer_died(), "somebody of the next job counts as dead");
        rank.leave();
      });
    }
  };
  expect_held("crash points", crash_everywhere(scenario, 60));
}

/// What has been published is found at once, by the polls themselves: nothing waits for a line to
/// be evicted by chance, or for what is looked after now and then.
TEST(Channel, MessagesArePrompt) {
  constexpr std::uint32_t messages = 40;
  constexpr int most_polls = 60;
  auto worst = 0;
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, prompt", 2);
  scenario.moods = false;
  scenario.knobs = {.evict = 0, .prefetch = 0, .drop_early = 0, .lazy_order = false};
  scenario.body = [&](World& world) {
    auto roll = std::make_shared<Roll>(2);
    auto sent = std::make_shared<std::array<std::uint32_t, 2>>();
    for (std::uint32_t i = 0; i < 2; ++i) {
      world.spawn(i, [&, roll, sent, i] {
        Rank rank(world, *pool, {i, {1 - i}, {1 - i}, messages});
        roll->enter(rank, i);
        world.until([&] { return roll->opened[1 - i]; });
        rank.meet(roll->addresses);
        for (std::uint32_t n = 0; n < messages; ++n) {
          // In turn, by ranks 0 and 1.
          int late = 0;
          while (rank.received_from(1 - i) < n + i) {
            rank.progress();
            if ((*sent)[1 - i] >= n + i) ++late;
            if (late > worst) {
              worst = late;
              printf("W %d m %u\n", late, n);
              fflush(stdout);
            }
            world.require(late < most_polls, fmt::format("message {} is found late", n));
            world.yield();
          }
          while (!rank.send_and_complete()) {
            rank.progress();
            world.yield();
          }
          for (late = 0; !rank.all_complete(); ++late) {
            rank.progress();
            world.require(late < 40 * most_polls, fmt::format("message {} is taken late", n));
            world.yield();
          }
          (*sent)[i] = n + 1;
        }
        while (!rank.finished()) {
          rank.progress();
          world.yield();
        }
        rank.leave();
      });
    }
  };
  expect_held("random schedules", explore(scenario, 10));
}

constexpr std::uint32_t ten = 10;

/// Rank `i` of ten, in slot `i`; rank 1 leaves early.
void one_of_ten(World& world, const SimulatedPool& pool, Roll& roll, std::uint32_t i) {
  world.until([&] { return i == 0 ? roll.opened[ten] : roll.opened[i - 1]; });
  const bool leaves = i == 1;
  std::vector<std::uint32_t> to, from;
  if (!leaves && (i + 2) % ten != 1) to.push_back((i + 2) % ten);
  if (!leaves && i != 3) from.push_back((i + ten - 2) % ten);
  Rank rank(world, pool, {i, to, from, 3});
  roll.enter(rank, i);
  world.require(rank.address().slot == i, "the lowest free slot was not taken");
  const auto look_until = [&](const std::function<bool()>& holds) {
    for (; !holds(); world.sleep(1'000'000)) rank.progress();
  };
  look_until([&] { return static_cast<bool>(roll.opened[ten - 1]); });
  if (!leaves) {
    look_until([&] { return roll.changed_hands; });
    rank.converse(roll.addresses);
  }
  rank.leave();
}

/// More endpoints than one line of a mailbox has words, and slots that change hands: whoever takes
/// a low slot, with an old copy of how many there are, must not make those of high slots unheard.
TEST(Channel, HighSlotsAreHeardAlsoWhenLowOnesChangeHands) {
  const auto pool = pool_with_endpoints({.max_processes = 16});
  Scenario scenario = pool->scenario("channel, ten endpoints", 3);
  scenario.body = [&](World& world) {
    auto roll = std::make_shared<Roll>(ten + 1);
    for (std::uint32_t i = 0; i < ten; ++i) {
      world.spawn(i < 8 ? 0 : 1, [&, roll, i] { one_of_ten(world, *pool, *roll, i); });
    }
    world.spawn(2, [&, roll] {
      Rank early(world, *pool, {ten, {}, {}, 0});
      early.close();
      roll->opened[ten] = true;
      world.until([&] { return roll->opened[ten - 1] && world.processes()[1]->ended; });
      early.open();
      world.require(early.address().slot == 1, "the low slot was not taken again");
      roll->changed_hands = true;
      early.leave();
    });
  };
  expect_held("random schedules", explore(scenario, 20));
}

/// An endpoint that closes while its process lives on is told as closed, not as dead.
TEST(Channel, PeersLearnThatAnEndpointWasClosed) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, one leaves", 2);
  scenario.body = [&](World& world) {
    auto roll = std::make_shared<Roll>(2);
    auto told = std::make_shared<bool>(false);
    world.spawn(0, [&, roll, told] {
      Rank rank(world, *pool, {0, {1}, {1}, 2});
      roll->enter(rank, 0);
      world.until([&] { return roll->opened[1]; });
      rank.converse(roll->addresses);
      rank.close();
      for (int i = 0; i < 400 && !*told; ++i) world.sleep(20'000'000);
      rank.leave();
    });
    world.spawn(1, [&, roll, told] {
      Rank rank(world, *pool, {1, {0}, {0}, 2});
      roll->enter(rank, 1);
      world.until([&] { return roll->opened[0]; });
      rank.converse(roll->addresses);
      bool closed = false;
      for (int i = 0; i < 100 && !closed; ++i) {
        world.sleep(20'000'000);
        rank.progress();
        closed = !rank.can_reach(roll->addresses[0]);
      }
      world.require(closed, "nobody says that the endpoint was closed");
      world.require(!rank.peer_died(), "an endpoint that was closed counts as dead");
      *told = true;
      rank.leave();
    });
  };
  expect_held("random schedules", explore(scenario, 40));
}

/// Both ends close and open again: new channels lie where old ones lay, and nodes hold copies of
/// those.
TEST(Channel, NewChannelsInThePlaceOfOldOnes) {
  constexpr std::uint32_t rounds = 5;
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, made anew", 2);
  scenario.most_steps = 6'000'000;
  scenario.body = [&](World& world) {
    std::vector<std::shared_ptr<Roll>> rolls;
    for (std::uint32_t r = 0; r < rounds; ++r) rolls.push_back(std::make_shared<Roll>(2));
    for (std::uint32_t i = 0; i < 2; ++i) {
      world.spawn(i, [&, rolls, i] {
        Rank rank(world, *pool, {i, {1 - i}, {1 - i}, 3});
        for (std::uint32_t r = 0; r < rounds; ++r) {
          if (r > 0) rank.open();
          rolls[r]->enter(rank, i);
          world.until([&] { return rolls[r]->opened[1 - i]; });
          rank.converse(rolls[r]->addresses);
          world.require(!rank.peer_died(), "taken for dead: " + rank.death());
          rank.close();
        }
        rank.leave();
      });
    }
  };
  expect_held("random schedules", explore(scenario, 30));
}

/// Endpoints made and closed again and again: slots and space return.
TEST(Channel, EndpointsComeAndGo) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("endpoints come and go", 2);
  scenario.most_steps = 20'000'000;
  scenario.body = [&](World& world) {
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, &pool, node] {
        for (int round = 0; round < 12; ++round) Rank(world, *pool, {node, {}, {}, 0}).leave();
      });
    }
  };
  scenario.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("random schedules", explore(scenario, 6));
}

constexpr std::uint32_t many_nodes = 16;

/// A ring of many ranks.
Scenario ring_of(const SimulatedPool& pool, std::uint32_t ranks) {
  constexpr std::uint32_t nodes = many_nodes;
  Scenario scenario = pool.scenario(fmt::format("channel, ring of {} ranks", ranks), nodes);
  scenario.most_steps = 4'000'000'000;
  scenario.most_seconds = 1200;
  scenario.moods = false;
  scenario.knobs.switching = 20;
  scenario.body = [&pool, ranks](World& world) {
    auto roll = std::make_shared<Roll>(ranks);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      world.spawn(i % nodes, [&world, &pool, roll, i, ranks] {
        run_rank(world, pool, *roll, {i, {(i + 1) % ranks}, {(i + ranks - 1) % ranks}, 2});
      });
    }
  };
  return scenario;
}

class ManyRanks : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ManyRanks, ExchangeMessages) {
  const std::uint32_t ranks = GetParam();
  const auto pool = pool_with_endpoints({.bytes = std::max<std::uint64_t>(ranks, 128) << 21,
                                         .max_processes = ranks + 8,
                                         .max_nodes = many_nodes});
  expect_held("random schedules", explore(ring_of(*pool, ranks), 1));
}
INSTANTIATE_TEST_SUITE_P(Sizes, ManyRanks, testing::Values(129u, 257u));
INSTANTIATE_TEST_SUITE_P(Long, ManyRanks, testing::Values(1024u));

}  // namespace
}  // namespace penstock::sim
