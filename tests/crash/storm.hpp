// Many concurrent processes that attach, open endpoints, send, pause and leave, while some of them
// are killed. They record their state in ordinary shared memory, which tells what must have become
// of every message.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <list>
#include <map>
#include <random>

#include "job.hpp"
#include "pool/attaching.hpp"

namespace penstock::crash {

inline constexpr std::uint32_t max_lives = 512, max_members = 256, max_stays = 1024;

/// The stage of an endpoint's life.
enum class Stage : std::uint32_t {
  unborn,
  open,
  quiet,    ///< sends no more; all its messages have been sent
  checked,  ///< has received all messages that were sent to it
  closed
};

/// The state of a storm, in memory shared by all its processes.
struct Board {
  struct Life {
    std::atomic<Stage> stage;
    std::uint32_t member;
    transport::Address address;
  };
  struct Member {
    std::atomic<bool> doomed;  ///< set before its process is killed
  };
  /// One attachment of a process.
  struct Stay {
    std::uint32_t member;
    pid_t pid;
    std::uint64_t token;
    std::atomic<bool> has_closed;  ///< has closed an endpoint
  };
  std::atomic<bool> over;  ///< no process sends any more
  std::atomic<std::uint32_t> lives, stays, faults, messages, deaths;
  Member members[max_members];
  Stay stay[max_stays];
  Life life[max_lives];
  std::atomic<std::uint32_t> sent[max_lives][max_lives];   ///< from, to
  std::atomic<std::uint32_t> taken[max_lives][max_lives];  ///< by, from

  bool doomed(std::uint32_t number) const { return members[life[number].member].doomed; }
  /// True if a peer may find that this endpoint is gone.
  bool may_go(std::uint32_t number) const {
    return doomed(number) || life[number].stage == Stage::closed;
  }
  /// True if the description is that of a process that was killed or has closed an endpoint.
  bool is_of_one_gone(const std::string& description) const {
    for (std::uint32_t i = 0; i < std::min(stays.load(), max_stays); ++i) {
      const Stay& one = stay[i];
      const bool named =
          description.find(fmt::format("(pid {} ", one.pid)) != std::string::npos ||
          description.find(fmt::format("(slot {}, generation {})", pool::slot_of(one.token),
                                       pool::generation_of(one.token))) != std::string::npos;
      if (!named) continue;
      if (members[one.member].doomed || (one.has_closed && description.ends_with(" left")))
        return true;
    }
    return false;
  }
  void complain(const std::string& what) {
    ++faults;
    fmt::print(stderr, "storm: {}\n", what);
  }
};

/// One process of a storm.
class Member final : public transport::EndpointCallbacks {
 public:
  Member(Board& board, std::string spec, std::uint32_t number, std::uint64_t seed)
      : board_(board),
        spec_(std::move(spec)),
        number_(number),
        random_(seed * 1'000'003 + number) {}

  /// Runs until the storm is over. Some processes kill themselves between two stores.
  void run() {
    while (!board_.over) stay();
  }

  transport::ReceiveBuffer on_message(const transport::Message& message) override {
    const transport::Header& header = message.header;
    if (message.payload != nullptr) {
      const auto* bytes = static_cast<const std::byte*>(message.payload);
      take(header, {bytes, bytes + header.bytes});
      return {};
    }
    auto* long_one = new Long(*this, header);
    return {.iov = &long_one->iov, .iov_count = 1, .arrival = long_one};
  }
  void on_sent(transport::SendOp* op) override { forget(op); }
  void on_send_failed(transport::SendOp* op, const Error& error) override {
    allow(forget(op), error);
  }
  /// Also reports peers that left while this process still sent to them.
  void on_peer_dead(transport::Peer, const std::string& description) override {
    if (board_.is_of_one_gone(description)) return;
    board_.complain("taken for dead: " + description);
  }

 private:
  struct Sending {
    transport::SendOp op;
    std::vector<std::byte> payload;
    std::uint32_t to;
  };
  struct Long final : transport::Arrival {
    Long(Member& the_owner, const transport::Header& the_header)
        : owner(the_owner),
          header(the_header),
          payload(header.bytes),
          iov{payload.data(), header.bytes} {}
    void arrived() override {
      owner.take(header, std::move(payload));
      delete this;
    }
    void failed(const Error& error) override {
      owner.allow(static_cast<std::uint32_t>(header.data), error);
      delete this;
    }
    Member& owner;
    transport::Header header;
    std::vector<std::byte> payload;
    iovec iov;
  };

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  /// Attaches, uses a few endpoints one after the other, and detaches. In one of six cases the
  /// process dies before a store while it attaches, opens an endpoint, or sends.
  void stay() {
    const std::uint64_t fate = one_in(6) ? 1 + below(3) : 0;
    if (fate != 0) board_.members[number_].doomed = true;
    if (fate == 1) arm(1 + below(40), Deed::die);
    side_ = attach(spec_, {.rank = static_cast<int>(number_),
                           .job = "storm",
                           .emulated_node = static_cast<std::uint32_t>(below(4))});
    stay_ = std::min(board_.stays++, max_stays - 1);
    board_.stay[stay_].member = number_;
    board_.stay[stay_].pid = ::getpid();
    board_.stay[stay_].token = side_.pool->token();
    if (fate == 2) arm(1 + below(60), Deed::die);
    for (std::uint64_t lives = 1 + below(3); lives > 0 && !board_.over; --lives) {
      const auto another = one_in(3) ? open_endpoint(side_, unheard_) : nullptr;
      if (!live(fate)) break;
    }
    if (fate != 0) ::kill(::getpid(), SIGKILL);
    side_.detach();
  }

  /// Uses one endpoint. False if there have been enough endpoints.
  bool live(std::uint64_t fate) {
    endpoint_ = open_endpoint(side_, *this);
    const std::uint32_t self = board_.lives++;
    if (self >= max_lives) {
      endpoint_.reset();
      return false;
    }
    self_ = self;
    next_.clear();
    own().member = number_;
    own().address = endpoint_->address();
    own().stage = Stage::open;
    if (fate == 3) arm(1 + below(900), Deed::die);
    for (std::uint64_t bursts = 1 + below(5); bursts > 0 && !board_.over; --bursts) {
      burst();
      // Half of them pause so long that idle channels shrink.
      go_on_for(below(2) * 150'000'000 + below(20'000'000));
    }
    come_to_rest();
    if (board_.over) check_all();
    board_.stay[stay_].has_closed = true;
    own().stage = Stage::closed;
    const std::uint64_t before = base::now_ns();
    endpoint_.reset();
    if (base::now_ns() - before > limit_ns / 2) board_.complain("closing lasts");
    return true;
  }
  Board::Life& own() { return board_.life[self_]; }

  void burst() {
    const std::uint32_t lives = std::min(board_.lives.load(), max_lives);
    // Choose among the latest endpoints, since most others have gone.
    const std::uint32_t to = lives - 1 - static_cast<std::uint32_t>(below(std::min(lives, 12u)));
    if (to == self_ || board_.life[to].stage != Stage::open) return;
    const auto peer = endpoint_->resolve(board_.life[to].address);
    if (!peer) return allow(to, peer.error());
    constexpr std::uint64_t sizes[] = {8, 8, 20, 300, 3000, 20'000};
    for (std::uint64_t number = 1 + below(60); number > 0; --number) {
      std::atomic<std::uint32_t>& sent = board_.sent[self_][to];
      Sending& sending = sending_.emplace_back();
      const std::uint64_t bytes = sizes[below(std::size(sizes))];
      sending.payload = content(sent, bytes);
      sending.to = to;
      sending.op.header = {sent, self_, bytes, 0};
      sending.op.iov[0] = {sending.payload.data(), bytes};
      sending.op.iov_count = 1;
      ++sent;
      const auto done = endpoint_->send(*peer, &sending.op);
      if (!done) {
        --sent;
        sending_.pop_back();
        return allow(to, done.error());
      }
      if (*done) sending_.pop_back();
      if (one_in(4)) endpoint_->progress();
    }
  }

  void go_on_for(std::uint64_t ns) {
    const std::uint64_t until = base::now_ns() + ns;
    go_on_until([&] { return base::now_ns() >= until || board_.over; }, "time");
  }
  template <class Holds>
  void go_on_until(const Holds& holds, const char* what) {
    const std::uint64_t end = base::now_ns() + limit_ns;
    while (!holds()) {
      if (endpoint_->progress() == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (base::now_ns() < end) continue;
      board_.complain(fmt::format("life {} waits in vain for {}", self_, what));
      return;
    }
  }
  void come_to_rest() {
    go_on_until([&] { return sending_.empty(); }, "its sends");
    own().stage = Stage::quiet;
  }

  template <class Holds>
  bool all_of(const Holds& holds) {
    for (std::uint32_t i = 0; i < std::min(board_.lives.load(), max_lives); ++i)
      if (i != self_ && board_.life[i].stage != Stage::unborn && !board_.may_go(i) && !holds(i))
        return false;
    return true;
  }
  /// Checks that all messages from endpoints that were not killed have arrived, including those of
  /// closed endpoints.
  void check_all() {
    go_on_until(
        [&] {
          return all_of([&](std::uint32_t i) { return board_.life[i].stage != Stage::open; });
        },
        "the others to come to rest");
    for (std::uint32_t from = 0; from < std::min(board_.lives.load(), max_lives); ++from) {
      if (board_.life[from].stage == Stage::unborn) continue;
      const auto all_came = [&] {
        return board_.taken[self_][from] == board_.sent[from][self_] || board_.doomed(from);
      };
      go_on_until(all_came, "messages");
      if (!all_came())
        board_.complain(fmt::format("{} of {} messages came from life {} to {}",
                                    board_.taken[self_][from].load(),
                                    board_.sent[from][self_].load(), from, self_));
    }
    own().stage = Stage::checked;
    go_on_until(
        [&] {
          return all_of([&](std::uint32_t i) { return board_.life[i].stage != Stage::quiet; });
        },
        "the others to check");
  }

  void take(const transport::Header& header, std::vector<std::byte> payload) {
    const auto from = static_cast<std::uint32_t>(header.data);
    if (from >= max_lives) return board_.complain("a message from nobody");
    std::uint64_t& next = next_[from];
    if (header.tag != next || payload != content(header.tag, header.bytes))
      board_.complain(fmt::format("message {} in place of {} from life {} to {}", header.tag, next,
                                  from, self_));
    next = header.tag + 1;
    ++board_.taken[self_][from];
    ++board_.messages;
  }
  std::uint32_t forget(transport::SendOp* op) {
    const auto found = std::find_if(sending_.begin(), sending_.end(),
                                    [op](const Sending& each) { return &each.op == op; });
    const std::uint32_t to = found->to;
    sending_.erase(found);
    return to;
  }
  /// Checks that an error concerns a peer that may be gone.
  void allow(std::uint32_t other, const Error& error) {
    if (!board_.may_go(other))
      board_.complain(fmt::format("life {} with {}: {}", self_, other, error.message));
  }

  Board& board_;
  std::string spec_;
  std::uint32_t number_, self_ = 0, stay_ = 0;
  std::mt19937_64 random_;
  Attached side_;
  Recorder unheard_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::list<Sending> sending_;
  std::map<std::uint32_t, std::uint64_t> next_;  ///< keyed by the sending endpoint
};

}  // namespace penstock::crash
