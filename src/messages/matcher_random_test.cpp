// Compares the matcher with a simple one that searches lists from the front. Random calls of every
// kind must yield the same reports in the same order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "base/seed_in_tests.hpp"
#include "messages/matcher.hpp"

namespace penstock::messages::matcher_random_test {
namespace {

using Reports = std::vector<std::string>;

/// The report of a received message as text. Its completion data is its number.
std::string received(const void* context, std::uint64_t message, std::size_t bytes, bool last) {
  return fmt::format("{} has {} of {} bytes{}", context, message, bytes, last ? ", released" : "");
}
std::string failed(const void* context, int error, std::uint64_t message) {
  return fmt::format("{} fails by {} at {}", context, error, message);
}

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
  Reports reports;
};

struct PlainMessage {
  Peer from;
  Header header;
  bool whole = true, peeked = false, discarded = false, announced = false;
  const ReceiveRequest* receive = nullptr;  ///< the receive that it is arriving in
  void* claim = nullptr;
};

class PlainMatcher {
 public:
  Reports reports;

  void message(const PlainMessage& message) {
    for (auto receive = posted.begin(); receive != posted.end(); ++receive) {
      if (receive->tagged != tagged(message) || !fits(*receive, message)) continue;
      if (receive->multi) {
        if (pack(*receive, message)) posted.erase(receive);
      } else if (message.whole) {
        end(*receive, message);
        posted.erase(receive);
      } else {
        arriving.push_back(message);
        matched.splice(matched.end(), posted, receive);
        arriving.back().receive = &matched.back();
      }
      return;
    }
    unexpected.push_back(message);
  }
  /// Ends a long message: its rest arrives (`whole`), or never will.
  void ends(std::uint64_t number, bool whole) {
    for (auto* list : {&unexpected, &claimed, &arriving}) {
      const auto at = std::find_if(list->begin(), list->end(),
                                   [&](const auto& one) { return one.header.data == number; });
      if (at == list->end()) continue;
      at->whole = whole;
      if (at->receive != nullptr && whole) end(*at->receive, *at);
      if (at->receive != nullptr && !whole)
        reports.push_back(failed(at->receive->context, ECONNRESET, number));
      if (list == &arriving || !whole) list->erase(at);
      return;
    }
  }
  void post(const ReceiveRequest& request) {
    ReceiveRequest receive = request;
    for (auto at = unexpected.begin(); at != unexpected.end();) {
      if (receive.tagged != tagged(*at) || !fits(receive, *at)) {
        ++at;
        continue;
      }
      if (!receive.multi) return take(receive, unexpected, at);
      const bool full = pack(receive, *at);
      at = unexpected.erase(at);
      if (full) return;
    }
    if (!receive.multi && receive.source != any_source && gone.count(receive.source) != 0)
      return reports.push_back(failed(receive.context, ECONNRESET, 0));
    posted.push_back(receive);
  }
  void cancel(const void* context) {
    for (const bool is_tagged : {false, true}) {
      const auto at = std::find_if(posted.begin(), posted.end(), [&](const auto& one) {
        return one.tagged == is_tagged && one.context == context;
      });
      if (at == posted.end()) continue;
      reports.push_back(failed(context, ECANCELED, 0));
      posted.erase(at);
      return;
    }
  }
  void peek(const ReceiveRequest& request, Matcher::Peek how) {
    const auto at = std::find_if(unexpected.begin(), unexpected.end(), [&](const auto& one) {
      return tagged(one) && fits(request, one);
    });
    const bool first_time = at != unexpected.end() && how == Matcher::Peek::look &&
                            request.source == any_source && !at->peeked;
    if (first_time) at->peeked = true;
    if (at == unexpected.end() || first_time)
      return reports.push_back(failed(request.context, ENOMSG, 0));
    const PlainMessage found = *at;
    if (how == Matcher::Peek::claim) {
      at->claim = request.context;
      claimed.splice(claimed.end(), unexpected, at);
    } else if (how == Matcher::Peek::discard) {
      drop(unexpected, at);
    }
    reports.push_back(received(request.context, found.header.data, found.header.bytes, false));
  }
  void end_claimed(const ReceiveRequest& request, bool receives) {
    const auto at = std::find_if(claimed.begin(), claimed.end(),
                                 [&](const auto& one) { return one.claim == request.context; });
    if (receives) return take(request, claimed, at);
    const PlainMessage found = *at;
    drop(claimed, at);
    reports.push_back(received(request.context, found.header.data, 0, false));
  }
  void leave(Peer peer) {
    gone[peer] = true;
    for (const std::uint64_t token_order : tokens) {
      const auto at = std::find_if(arriving.begin(), arriving.end(), [&](const auto& one) {
        return one.header.data == token_order && one.announced && one.from == peer;
      });
      if (at == arriving.end()) continue;
      if (at->receive != nullptr)
        reports.push_back(failed(at->receive->context, ECONNRESET, at->header.data));
      arriving.erase(at);
    }
    for (auto* list : {&unexpected, &claimed})
      list->remove_if([&](const auto& one) { return one.announced && one.from == peer; });
    for (const bool is_tagged : {false, true}) {
      for (auto at = posted.begin(); at != posted.end();) {
        const bool ends = at->tagged == is_tagged && at->source == peer;
        if (ends) reports.push_back(failed(at->context, ECONNRESET, 0));
        at = ends ? posted.erase(at) : std::next(at);
      }
    }
  }
  std::vector<std::uint64_t> tokens;  ///< messages in the order of their tokens
  std::size_t claims() const { return claimed.size(); }
  void* claim(std::size_t which) const {
    return std::next(claimed.begin(), static_cast<std::ptrdiff_t>(which))->claim;
  }

 private:
  using Messages = std::list<PlainMessage>;
  static bool tagged(const PlainMessage& message) {
    return (message.header.kind & kind_tagged) != 0;
  }
  static bool fits(const ReceiveRequest& receive, const PlainMessage& message) {
    return ((receive.tag ^ message.header.tag) & ~receive.ignore) == 0 &&
           (receive.source == any_source || receive.source == message.from);
  }
  void end(const ReceiveRequest& receive, const PlainMessage& message) {
    const std::size_t room = receive.iov[0].iov_len;
    if (message.header.bytes > room)
      reports.push_back(failed(receive.context, EMSGSIZE, message.header.data));
    else
      reports.push_back(
          received(receive.context, message.header.data, message.header.bytes, false));
  }
  /// Puts a message into a multi-receive buffer, which takes only small messages here. True if too
  /// little remains.
  bool pack(ReceiveRequest& receive, const PlainMessage& message) {
    iovec& left = receive.iov[0];
    const std::size_t part = std::min<std::size_t>(message.header.bytes, left.iov_len);
    left.iov_len -= part;
    const bool full = left.iov_len < least_left;
    if (part < message.header.bytes)
      reports.push_back(failed(receive.context, EMSGSIZE, message.header.data));
    else
      reports.push_back(received(receive.context, message.header.data, part, full));
    return full;
  }
  void take(const ReceiveRequest& receive, Messages& from, Messages::iterator at) {
    if (at->whole) {
      end(receive, *at);
      from.erase(at);
      return;
    }
    matched.push_back(receive);
    at->receive = &matched.back();
    arriving.splice(arriving.end(), from, at);
  }
  void drop(Messages& from, Messages::iterator at) {
    if (at->whole) return void(from.erase(at));
    at->receive = nullptr;
    arriving.splice(arriving.end(), from, at);
  }

  static constexpr std::size_t least_left = 64;
  std::list<ReceiveRequest> posted, matched;
  Messages unexpected, claimed, arriving;
  std::map<Peer, bool> gone;
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

}  // namespace
}  // namespace penstock::messages::matcher_random_test
