// Compares the matcher with a simple one that searches lists from the front. Random calls of every
// kind must yield the same reports in the same order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "base/seed_in_tests.hpp"
#include "messages/matching_plan.hpp"
#include "messages/plain_matcher.hpp"

namespace penstock::messages::matcher_random_test {
namespace {

class Recorder : public MatchReports, public MatchEvents {
 public:
  void on_received(const Received& what) override {
    reports.push_back(received(what.context, what.data, what.bytes, what.released));
  }
  void on_receive_failure(const ReceiveFailure& what) override {
    reports.push_back(failed(what.what.context, what.error, what.what.data));
  }
  Cause cause_of(const Error&) override { return {ECONNRESET, 1}; }
  void fetch(Peer from, std::uint64_t id, std::uint64_t token) override {
    fetched.push_back({from, id, token});
  }
  struct Fetch {
    Peer from;
    std::uint64_t id, token;
  };
  std::vector<Fetch> fetched;
  std::vector<Report> reports;
};

class Both {
 public:
  explicit Both(std::uint64_t seed, std::uint64_t tags) : random_(seed), tags_(tags) {}

  void step(bool more_receives) {
    if (below(6) == 0) return announce();
    if (below(6) == 0) return payload();
    const std::uint64_t act = below(100);
    if (act < 40)
      more_receives ? post() : message();
    else if (act < 75)
      more_receives ? message() : post();
    else if (act < 83)
      ends();
    else if (act < 88)
      cancel();
    else if (act < 94)
      peek();
    else if (act < 99)
      end_claimed();
    else if (below(40) == 0)
      leave();
  }
  void compare() const {
    for (std::size_t i = 0; i < std::min(events_.reports.size(), plain_.reports.size()); ++i)
      ASSERT_EQ(events_.reports[i], plain_.reports[i]) << "report " << i;
    ASSERT_EQ(events_.reports.size(), plain_.reports.size());
    ASSERT_GT(plain_.reports.size(), 500u);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  Peer peer() { return static_cast<Peer>(below(6)); }
  std::uint64_t tag() { return (below(2) + 1) << 32 | below(tags_) | below(2) << 60; }

  ReceiveRequest request() {
    ReceiveRequest request;
    request.tagged = below(8) != 0;
    request.context = &contexts_[next_context_++ % std::size(contexts_)];
    request.iov[0] = {buffer_, 100 + below(3000)};
    request.iov_count = 1;
    request.multi = !request.tagged && below(2) == 0;
    if (!request.multi && below(4) != 0) request.source = peer();
    if (!request.tagged) return request;
    request.tag = tag();
    request.ignore = 1ull << 60;
    if (below(4) == 0) request.ignore |= 0xffffffff;
    if (below(20) == 0) request.ignore |= below(tags_);
    return request;
  }
  void post() {
    const ReceiveRequest wanted = request();
    ASSERT_EQ(matcher_.post(wanted), 0);
    plain_.post(wanted);
  }
  void message() {
    const bool is_tagged = below(8) != 0;
    const std::uint8_t kind = kind_of_user | (is_tagged ? kind_tagged : 0);
    const Header header{is_tagged ? tag() : 0, ++number_, below(900), kind};
    const bool whole = !is_tagged || below(3) != 0;
    const Peer from = peer();
    if (whole) {
      matcher_.message({.from = from, .header = header, .payload = payload_});
    } else {
      const Header longer{header.tag, header.data, header.bytes + 1, kind};
      const ReceiveBuffer buffer = matcher_.message({.from = from, .header = longer});
      ASSERT_NE(buffer.arrival, nullptr);
      arriving_.emplace_back(number_, buffer.arrival);
      return plain_.message({from, longer, false});
    }
    plain_.message({from, header});
  }
  void ends() {
    if (arriving_.empty()) return;
    const std::size_t which = below(arriving_.size());
    const auto [number, arrival] = arriving_[which];
    arriving_.erase(arriving_.begin() + static_cast<std::ptrdiff_t>(which));
    const bool whole = below(10) != 0;
    whole ? arrival->arrived() : arrival->failed({ErrorCode::peer_dead, "died"});
    plain_.ends(number, whole);
  }
  void cancel() {
    void* const context = &contexts_[below(std::size(contexts_))];
    (void)matcher_.cancel(context);
    plain_.cancel(context);
  }
  void peek() {
    ReceiveRequest wanted = request();
    if (!wanted.tagged) return;
    const auto how = static_cast<Matcher::Peek>(below(3));
    // Each claim has a context of its own, as MPIs do it.
    wanted.context = reinterpret_cast<void*>(0x10000 + ++claims_ * 8);
    matcher_.peek(wanted, how);
    plain_.peek(wanted, how);
  }
  void end_claimed() {
    if (plain_.claims() == 0) return;
    ReceiveRequest wanted = request();
    wanted.context = plain_.claim(below(plain_.claims()));
    wanted.multi = false;
    const bool receives = below(2) == 0;
    ASSERT_EQ(receives ? matcher_.receive_claimed(wanted) : matcher_.discard_claimed(wanted), 0);
    plain_.end_claimed(wanted, receives);
  }
  void announce() {
    const Header header{tag(), ++number_, sizeof(Announcement),
                        kind_tagged | kind_of_user | kind_announced};
    const Announcement what{number_, 1 + below(900)};
    const Peer from = peer();
    matcher_.message({.from = from, .header = header, .payload = &what});
    PlainMessage plain{from, {header.tag, number_, what.bytes, kind_tagged | kind_of_user}, false};
    plain.announced = true;
    lengths_[number_] = what.bytes;
    plain_.message(plain);
  }
  void payload() {
    if (events_.fetched.empty()) return;
    const std::size_t which = below(events_.fetched.size());
    const Recorder::Fetch fetch = events_.fetched[which];
    events_.fetched.erase(events_.fetched.begin() + static_cast<std::ptrdiff_t>(which));
    const Header header{fetch.token, fetch.id, lengths_[fetch.id], 0};
    if (below(2) == 0) {
      matcher_.payload({.from = fetch.from, .header = header, .payload = payload_});
    } else if (const ReceiveBuffer buffer =
                   matcher_.payload({.from = fetch.from, .header = header});
               buffer.arrival != nullptr) {
      buffer.arrival->arrived();
    }
    plain_.ends(fetch.id, true);
  }
  void leave() {
    const Peer gone = peer();
    std::vector<Recorder::Fetch> of_gone = events_.fetched;
    std::sort(of_gone.begin(), of_gone.end(),
              [](const auto& a, const auto& b) { return a.token < b.token; });
    plain_.tokens.clear();
    for (const auto& fetch : of_gone) plain_.tokens.push_back(fetch.id);
    matcher_.peer_left(gone, 1, ECONNRESET, 0);
    plain_.leave(gone);
  }

  Recorder events_;
  Matcher matcher_{events_, events_};
  PlainMatcher plain_;
  std::mt19937_64 random_;
  std::uint64_t tags_;
  std::uint64_t number_ = 0, next_context_ = 0, claims_ = 0;
  std::vector<std::pair<std::uint64_t, transport::Arrival*>> arriving_;
  std::map<std::uint64_t, std::uint64_t> lengths_;  ///< of announced messages
  char contexts_[4000] = {};
  char buffer_[4000] = {};
  char payload_[1000] = {};
};

TEST(MatcherBesideAPlainOne, ReportsTheSame) {
  for (std::uint64_t round = 0; round < 12; ++round) {
    Both both(base::seed_in_tests() + round, round % 2 == 0 ? 6 : 150);
    for (int step = 0; step < 4000; ++step) both.step(step / 500 % 2 == 0);
    both.compare();
    if (testing::Test::HasFatalFailure()) FAIL() << "round " << round;
  }
}

TEST(MatchingPlans, DoNotDependOnTheTiming) {
  std::mt19937_64 random(base::seed_in_tests());
  const MatchingPlan plan(base::seed_in_tests(), {.ranks = 4, .rounds = 50, .tags = 3});
  for (const PlannedRound& round : plan.rounds()) {
    for (int turn = 0; turn < 20; ++turn) {
      const std::vector<std::uint64_t> found = MatchingPlan::match(round, random);
      for (std::size_t at = 0; at < round.size(); ++at)
        ASSERT_EQ(found[at], round[at].is_send ? 0 : round[at].number);
    }
  }
}

}  // namespace
}  // namespace penstock::messages::matcher_random_test
