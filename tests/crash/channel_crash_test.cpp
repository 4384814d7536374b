// SIGKILL and SIGSTOP between the stores of endpoints and channels, in both roles.
#include <cstring>
#include <deque>
#include <optional>

#include "base/environment_guard.hpp"
#include "job.hpp"
#include "transport/endpoint_table.hpp"
#include "transport/peer_statistics.hpp"

namespace penstock::crash {
namespace {

using testing::HasSubstr;
using transport::Address;
using transport::Endpoint;
using transport::Peer;

/// Number of open endpoints whose process lives.
std::uint32_t living_endpoints(const Attached& side) {
  const auto table = transport::EndpointTable::open(*side.arena);
  EXPECT_TRUE(table);
  std::uint32_t living = 0;
  for (std::uint32_t slot = 0; slot < table->count(); ++slot) {
    const auto line = table->read(slot);
    living += line && line->open() && side.pool->alive(line->token);
  }
  return living;
}

class ChannelCrash : public CrashTest, public testing::WithParamInterface<coherence::Mode> {
 protected:
  void SetUp() override {
    create(64 << 20, 16, GetParam());
    run_job(2);  // makes the endpoint table, which is never freed
  }

  void run_job(std::uint32_t participants) { expect_job_works(spec_, participants); }
};

INSTANTIATE_TEST_SUITE_P(Modes, ChannelCrash,
                         testing::Values(coherence::Mode::software, coherence::Mode::hardware),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

TEST_P(ChannelCrash, InOpeningAndClosingAnEndpoint) {
  survive_everywhere(
      "endpoint open, close", 100,
      [this](const auto& armed) {
        const Attached here = attach(spec_);
        Recorder callbacks;
        armed();
        open_endpoint(here, callbacks);
      },
      [this] {
        run_job(3);
        EXPECT_EQ(living_endpoints(attach(spec_)), 0u);
      });
}

/// Rows of more than one piece. No reader may get a row that was not published completely.
TEST_P(ChannelCrash, InTellingOfItsPeers) {
  constexpr Peer peers = transport::rows_of_slot + transport::rows_of_piece + 9;
  constexpr std::uint32_t generation = 77;
  const auto told = [](Peer peer, std::uint64_t round) {
    const std::uint64_t n = 1000 * peer + round;
    return transport::EndpointStats{n, n + 1, n + 2, n + 3, n + 4, n + 5};
  };
  std::size_t most = 0;
  survive_everywhere(
      "rows of peers", 60,
      [&](const auto& armed) {
        const Attached here = attach(spec_);
        const Address own{here.pool->info().id, 1, 0, generation};
        armed();
        const auto table = transport::EndpointTable::open(*here.arena);
        transport::PeerStatistics rows(*here.arena, *table, own);
        for (Peer peer = 0; peer < peers; ++peer) rows.make_room(peer);
        for (std::uint64_t round = 0; round < 3; ++round)
          for (Peer peer = 0; peer < peers; ++peer)
            rows.publish(peer, generation, told(peer, round));
      },
      [&] {
        const auto found = transport::peer_counts(*attach(spec_, {.observer = true}).arena);
        for (const auto& row : found) {
          ASSERT_LT(row.peer, peers);
          EXPECT_EQ(row.counts, told(row.peer, row.counts.messages_sent % 1000));
        }
        most = std::max(most, found.size());
      });
  EXPECT_GT(most, transport::rows_of_piece) << "nobody died with rows in the second piece";
}

/// The peer closes and detaches after this side has read that it is open, and before this side
/// checks whether its process lives.
TEST_P(ChannelCrash, LeavingPeerIsNotTakenForDead) {
  const Attached here = attach(spec_);
  Attached there = attach(spec_);
  Recorder callbacks, other_callbacks;
  const auto endpoint = open_endpoint(here, callbacks);
  auto other = open_endpoint(there, other_callbacks);
  const Peer peer = *endpoint->resolve(other->address());
  const auto table = transport::EndpointTable::open(*here.arena);
  ASSERT_TRUE(table);
  const std::byte* line = table->line_of(peer);
  bool left = false;
  after_line_load([&](const void* from) {
    if (from != line || left) return;
    left = true;
    other.reset();
    there.detach();
  });
  const std::uint64_t deadline = base::now_ns() + limit_ns;
  while (!left && base::now_ns() < deadline) endpoint->progress();
  const std::uint64_t until = base::now_ns() + 100'000'000;
  while (base::now_ns() < until) endpoint->progress();
  after_line_load({});
  EXPECT_TRUE(left);
  EXPECT_TRUE(callbacks.dead.empty()) << callbacks.dead.front();
}

/// Traffic with a process that dies: the number, size and direction of messages.
struct Talk {
  const char* name;
  bool victim_sends;
  std::uint64_t messages, bytes;
  bool rendezvous_get = false;  ///< the sender's memory is in the pool
  bool intra_node = false;      ///< both are on one node and rely on its coherent caches
  bool rendezvous_put = false;  ///< the receiver's memory is in the pool
  std::uint64_t armed_at = 0;   ///< if the victim sends: it dies in this message or later
  std::uint32_t victims_node() const { return intra_node ? 0 : 1; }
  /// True if the sender's (`sends`) or the receiver's payload is in the pool.
  bool in_pool(bool sends) const { return sends ? rendezvous_get : rendezvous_put; }
};

/// Pool memory for the sender's or the receiver's payload.
class Region {
 public:
  Region(const Attached& here, const Talk& talk, bool sends) : arena_(*here.arena) {
    if (!talk.in_pool(sends)) return;
    auto made = arena_.create(fmt::format("region of {}", here.pool->token()),
                              talk.messages * talk.bytes, {.lifetime = arena::Lifetime::process});
    if (!made) throw std::runtime_error(made.error().message);
    object_ = *made;
  }
  ~Region() {
    if (object_.data != nullptr) (void)arena_.destroy(object_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  std::byte* data() const { return object_.data; }

 private:
  arena::Arena& arena_;
  arena::Object object_;
};

class TalkCrash : public ChannelCrash {
 protected:
  /// The victim's part: sends or receives `messages`, then leaves in order.
  void live(const Talk& talk, const pool::Child::Report& report, int from_parent,
            const std::function<void()>& armed) {
    const Attached here =
        attach(spec_, {.rank = 1, .job = "crash", .emulated_node = talk.victims_node()});
    Recorder callbacks;
    auto endpoint = open_endpoint(here, callbacks);
    const Address own = endpoint->address();
    report(own.slot + 1);
    report(own.generation);
    Address address;
    if (::read(from_parent, &address, sizeof address) != sizeof address) return;
    const Region region(here, talk, talk.victim_sends);
    if (!talk.victim_sends) callbacks.receive_buffer = region.data();
    if (talk.armed_at == 0) armed();
    const Peer survivor = *endpoint->resolve(address);
    if (talk.victim_sends) {
      post(*endpoint, survivor, talk, region, armed);
      while (!endpoint->drained()) endpoint->progress();
    } else {
      while (callbacks.arrived < talk.messages) endpoint->progress();
    }
    endpoint.reset();
    if (callbacks.damaged != 0) ::_exit(4);
  }

  /// Posts all messages. Returns how many were refused with an error.
  std::uint64_t post(
      Endpoint& endpoint, Peer to, const Talk& talk, const Region& region,
      const std::function<void()>& armed = [] {}) {
    std::uint64_t refused = 0;
    for (std::uint64_t tag = 0; tag < talk.messages; ++tag) {
      if (tag != 0 && tag == talk.armed_at) armed();
      data_.push_back(content(tag, talk.bytes));
      transport::SendOp& op = ops_.emplace_back();
      op.header = {tag, 0, talk.bytes, 0};
      op.iov[0] = {data_.back().data(), data_.back().size()};
      if (talk.rendezvous_get) {
        op.iov[0].iov_base = region.data() + tag * talk.bytes;
        std::memcpy(op.iov[0].iov_base, data_.back().data(), talk.bytes);
      }
      op.iov_count = 1;
      const auto sent = endpoint.send(to, &op);
      if (!sent) {
        EXPECT_EQ(sent.error().code, ErrorCode::peer_dead) << sent.error().message;
        ++refused;
      } else if (*sent) {
        ++complete_;
      }
      endpoint.progress();
    }
    return refused;
  }

  /// Runs one survivor and one victim. Returns the steps of a victim that finished, else 0.
  End converse(const Talk& talk, std::uint64_t at, Deed deed) {
    const Attached here = attach(spec_, {.rank = 0, .job = "crash", .emulated_node = 0});
    Recorder callbacks;
    auto endpoint = open_endpoint(here, callbacks);
    int down[2];
    if (::pipe(down) != 0) return {};
    pool::Child child([&](const pool::Child::Report& report) {
      ::close(down[1]);
      live(talk, report, down[0], [at, deed] { arm(at, deed); });
      report(disarm() + 1);
      return 0;
    });
    ::close(down[0]);
    const Address own = endpoint->address();
    Address address = own;
    address.slot = static_cast<std::uint32_t>(child.next_report() - 1);
    address.generation = static_cast<std::uint32_t>(child.next_report());
    const auto peer = endpoint->resolve(address);
    closed_ = false;
    std::optional<Region> region(std::in_place, here, talk, !talk.victim_sends);
    if (talk.victim_sends) callbacks.receive_buffer = region->data();
    EXPECT_EQ(::write(down[1], &own, sizeof own), static_cast<ssize_t>(sizeof own));
    ::close(down[1]);
    const auto is_closed = [&] {
      const auto line = transport::EndpointTable::open(*here.arena)->read(address.slot);
      return !line || line->generation != address.generation || line->closed();
    };
    const End end = survive(talk, *endpoint, callbacks, *peer, child, is_closed, *region);
    expect_named_when_dead(here, talk, *endpoint, callbacks, address, child.pid(), end);
    endpoint.reset();
    region.reset();
    data_.clear();
    ops_.clear();
    complete_ = 0;
    return end;
  }

  /// Runs the survivor until the victim has ended and nothing is outstanding.
  End survive(const Talk& talk, Endpoint& endpoint, Recorder& callbacks, Peer peer,
              pool::Child& child, const std::function<bool()>& is_closed, const Region& region) {
    const std::uint64_t refused = talk.victim_sends ? 0 : post(endpoint, peer, talk, region);
    const std::uint64_t deadline = base::now_ns() + limit_ns;
    End end;
    bool ended = false;
    while (!ended || !finished(talk, endpoint, callbacks, refused, end)) {
      endpoint.progress();
      siginfo_t info{};
      ::waitid(P_PID, static_cast<id_t>(child.pid()), &info,
               WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
      if (info.si_code == CLD_STOPPED && !end.stopped) {
        end.stopped = true;
        rest_then_continue(endpoint, callbacks, child);
      }
      const bool killed = info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
      if (!ended && (killed || info.si_code == CLD_EXITED)) {
        ended = true;
        closed_ = is_closed();
        end.died = killed;
        EXPECT_TRUE(info.si_status == (killed ? SIGKILL : 0))
            << "not by its fate: " << info.si_status;
        if (!end.died) end.steps = child.next_report() - 1;
      }
      if (base::now_ns() > deadline) {
        ADD_FAILURE() << "the survivor hangs: " << callbacks.arrived << " arrived, "
                      << callbacks.sent << " sent, " << callbacks.failed << " failed";
        break;
      }
    }
    EXPECT_EQ(callbacks.damaged, 0u) << "messages with wrong contents";
    EXPECT_EQ(callbacks.begun, 0) << "messages that neither arrived nor failed";
    return end;
  }

  /// Checks that a stopped peer is not reported as dead, then continues it.
  void rest_then_continue(Endpoint& endpoint, Recorder& callbacks, const pool::Child& child) {
    const std::uint64_t until = base::now_ns() + 60'000'000;
    while (base::now_ns() < until) endpoint.progress();
    EXPECT_TRUE(callbacks.dead.empty()) << callbacks.dead.front();
    EXPECT_TRUE(callbacks.errors.empty()) << callbacks.errors.front().message;
    child.kill(SIGCONT);
  }

  /// True once the victim's end is handled: its death is reported, or it has closed and all its
  /// messages have arrived.
  bool finished(const Talk& talk, const Endpoint& endpoint, const Recorder& callbacks,
                std::uint64_t refused, const End& end) const {
    const bool all_sent = complete_ + callbacks.sent + callbacks.failed + refused == ops_.size();
    if (!end.died) {
      return talk.victim_sends ? callbacks.arrived == talk.messages
                               : all_sent && endpoint.drained();
    }
    return all_sent && callbacks.begun == 0 && (!callbacks.dead.empty() || closed_);
  }

  void expect_named_when_dead(const Attached& here, const Talk& talk, Endpoint& endpoint,
                              const Recorder& callbacks, const Address& victim, pid_t pid,
                              const End& end) {
    if (!end.died || closed_) {
      EXPECT_TRUE(callbacks.dead.empty()) << callbacks.dead.front();
      return;
    }
    ASSERT_EQ(callbacks.dead.size(), 1u);
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    EXPECT_THAT(callbacks.dead[0],
                HasSubstr(fmt::format("rank 1 (pid {} on host {}, emulated node {}) died", pid,
                                      std::string(host).substr(0, 56), talk.victims_node())));
    for (const Error& error : callbacks.errors) {
      EXPECT_EQ(error.code, ErrorCode::peer_dead);
      EXPECT_THAT(error.message, HasSubstr(fmt::format("pid {}", pid)));
    }
    const std::uint64_t word = 0;
    const auto again = endpoint.try_inject(victim.slot, {0, 0, 8, 0}, &word);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ErrorCode::peer_dead);
    EXPECT_EQ(living_endpoints(here), 1u);
  }

  void survive_talk(const Talk& talk, std::uint64_t default_samples, Deed deed) {
    const std::uint64_t total = converse(talk, 0, Deed::none).steps;
    ASSERT_GT(total, 0u);
    const Standing before = collected(spec_);
    CrashStatistics statistics(fmt::format("{}, {}{}", talk.name, mode_name(GetParam()),
                                           deed == Deed::stop ? ", stopped" : ""),
                               total);
    for (const std::uint64_t at : sample(total, default_samples)) {
      SCOPED_TRACE(fmt::format("{}, step {} of {}, TEST_SEED={}", talk.name, at, total, seed()));
      statistics.tried();
      const End end = converse(talk, at, deed);
      // A run may need fewer steps than the counted one, but never none.
      EXPECT_TRUE(at > 1 || (deed == Deed::stop ? end.stopped : end.died)) << "nothing happened";
      EXPECT_EQ(collected(spec_), before);
      run_job(at % 2 == 0 ? 3 : 5);
      EXPECT_EQ(collected(spec_), before);
      if (HasFailure()) return;
      statistics.survived();
    }
  }

  std::deque<std::vector<std::byte>> data_;
  std::deque<transport::SendOp> ops_;
  std::uint64_t complete_ = 0;
  bool closed_ = false;  ///< the victim had closed its endpoint before it died
};

INSTANTIATE_TEST_SUITE_P(Modes, TalkCrash,
                         testing::Values(coherence::Mode::software, coherence::Mode::hardware),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

constexpr Talk small_from{"small messages, sender", true, 40, 20};
constexpr Talk small_to{"small messages, receiver", false, 40, 20};
constexpr Talk lines_from{"tagged lines, sender", true, 30, 900};
constexpr Talk lines_to{"tagged lines, receiver", false, 30, 900};
constexpr Talk bulk_from{"bulk, sender", true, 3, 1 << 20};
constexpr Talk bulk_to{"bulk, receiver", false, 3, 1 << 20};
constexpr Talk get_from{"in the pool, sender", true, 3, 1 << 20, true};
constexpr Talk get_to{"in the pool, receiver", false, 3, 1 << 20, true};
constexpr Talk put_from{"into the pool, sender", true, 3, 1 << 20, false, false, true};
constexpr Talk put_to{"into the pool, receiver", false, 3, 1 << 20, false, false, true};
constexpr Talk intra_node_small_from{
    "small messages within a node, sender", true, 40, 20, false, true};
constexpr Talk intra_node_small_to{
    "small messages within a node, receiver", false, 40, 20, false, true};
constexpr Talk intra_node_bulk_from{"bulk within a node, sender", true, 3, 1 << 20, false, true};
constexpr Talk intra_node_bulk_to{"bulk within a node, receiver", false, 3, 1 << 20, false, true};

constexpr Talk moving_from{.name = "a channel that moves, sender",
                           .victim_sends = true,
                           .messages = 36,
                           .bytes = 20,
                           .armed_at = 12};
constexpr Talk moving_to{"a channel that moves, receiver", false, 36, 20};
constexpr std::uint64_t each_step = 1'000'000;

/// A ring of 16 lines. The channel moves at the 17th or the 32nd message, when two laps have ended
/// within 100 ms.
TEST_P(TalkCrash, SenderOfMovingChannelDiesAtEachStore) {
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  survive_talk(moving_from, each_step, Deed::die);
}
TEST_P(TalkCrash, ReceiverOfMovingChannelDiesAtEachStore) {
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  survive_talk(moving_to, each_step, Deed::die);
}
TEST_P(TalkCrash, SenderOfAChannelThatMovesStops) {
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  survive_talk(moving_from, 12, Deed::stop);
}

TEST_P(TalkCrash, SenderOfSmallMessagesDies) {
  survive_talk(small_from, 12, Deed::die);
}
TEST_P(TalkCrash, ReceiverOfSmallMessagesDies) {
  survive_talk(small_to, 8, Deed::die);
}
TEST_P(TalkCrash, SenderOfLinesDies) {
  survive_talk(lines_from, 12, Deed::die);
}
TEST_P(TalkCrash, ReceiverOfLinesDies) {
  survive_talk(lines_to, 8, Deed::die);
}
TEST_P(TalkCrash, SenderOfBulkDies) {
  survive_talk(bulk_from, 12, Deed::die);
}
TEST_P(TalkCrash, ReceiverOfBulkDies) {
  survive_talk(bulk_to, 8, Deed::die);
}
TEST_P(TalkCrash, SenderOfRendezvousGetDies) {
  const base::EnvironmentItems rendezvous_get("PENSTOCK_CHANNELS", "get=64K");
  survive_talk(get_from, 12, Deed::die);
}
TEST_P(TalkCrash, ReceiverOfRendezvousGetDies) {
  const base::EnvironmentItems rendezvous_get("PENSTOCK_CHANNELS", "get=64K");
  survive_talk(get_to, 8, Deed::die);
}
TEST_P(TalkCrash, SenderOfRendezvousPutDies) {
  survive_talk(put_from, 12, Deed::die);
}
TEST_P(TalkCrash, ReceiverOfRendezvousPutDies) {
  survive_talk(put_to, 12, Deed::die);
}
TEST_P(TalkCrash, SenderOfRendezvousPutStops) {
  survive_talk(put_from, 4, Deed::stop);
}
TEST_P(TalkCrash, SenderWithinANodeDies) {
  survive_talk(intra_node_small_from, 8, Deed::die);
  survive_talk(intra_node_bulk_from, 8, Deed::die);
}
TEST_P(TalkCrash, ReceiverWithinANodeDies) {
  survive_talk(intra_node_small_to, 6, Deed::die);
  survive_talk(intra_node_bulk_to, 6, Deed::die);
}
TEST_P(TalkCrash, SenderOfSmallMessagesStops) {
  survive_talk(small_from, 4, Deed::stop);
}
TEST_P(TalkCrash, SenderOfBulkStops) {
  survive_talk(bulk_from, 6, Deed::stop);
}
TEST_P(TalkCrash, ReceiverOfBulkStops) {
  survive_talk(bulk_to, 6, Deed::stop);
}

}  // namespace
}  // namespace penstock::crash
