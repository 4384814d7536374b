// A matcher that searches lists from the front: what the others are compared with in tests.
#pragma once

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <list>
#include <map>
#include <ostream>
#include <vector>

#include "messages/matcher.hpp"

namespace penstock::messages {

/// The end of a receive.
struct Report {
  const void* context = nullptr;
  int error = 0;
  std::uint64_t message = 0;  ///< its completion data, which is its number
  std::size_t bytes = 0;      ///< 0 after an error
  bool released = false;
  bool operator==(const Report&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Report& report) {
  out << report.context << ": message " << report.message << ", " << report.bytes << " bytes";
  if (report.error != 0) out << ", error " << report.error;
  return out << (report.released ? ", released" : "");
}
inline Report received(const void* context, std::uint64_t message, std::size_t bytes, bool last) {
  return {context, 0, message, bytes, last};
}
inline Report failed(const void* context, int error, std::uint64_t message) {
  return {context, error, message, 0, false};
}

struct PlainMessage {
  Peer from;
  Header header;
  bool whole = true, peeked = false, discarded = false, announced = false;
  const ReceiveRequest* receive = nullptr;  ///< the receive that it is arriving in
  void* claim = nullptr;
};

class PlainMatcher {
 public:
  std::vector<Report> reports;

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

}  // namespace penstock::messages
