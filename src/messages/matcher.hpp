// Matches arriving messages with posted receives. Each endpoint has one matcher; tagged and
// untagged messages never match each other. Order: a message takes the oldest receive that matches
// it, a receive the oldest message that matches it.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "messages/backpressure.hpp"
#include "messages/contexts.hpp"
#include "messages/fetched.hpp"
#include "messages/queues.hpp"
#include "messages/wire.hpp"
#include "transport/iov.hpp"
#include "transport/transport.hpp"

namespace penstock::messages {

using transport::Message;
using transport::ReceiveBuffer;

struct ReceiveRequest {
  iovec iov[transport::max_iov] = {};
  std::uint32_t iov_count = 0;
  bool tagged = false;
  bool report = true;  ///< successes are reported (errors always are)
  bool multi = false;  ///< one buffer for many messages; iov_count is 1
  std::uint32_t source = any_source;
  std::uint64_t tag = 0, ignore = 0;
  void* context = nullptr;

  Asked asked() const { return {tag, ignore, source}; }
};

/// The outcome of a receive or a peek.
struct Received {
  void* context = nullptr;
  std::uint8_t kind = 0;  ///< Header::kind of the message
  bool released = false;  ///< the multi-receive buffer takes no more messages
  bool report = true;     ///< as in the request
  std::size_t bytes = 0;  ///< bytes in the buffer
  void* buffer = nullptr;
  std::uint64_t data = 0, tag = 0;
  Peer from = any_source;
};
struct ReceiveFailure {
  Received what;
  /// EMSGSIZE (the message was longer than the buffer), ECANCELED, ENOMEM, ENOMSG (a peek found
  /// none); or what the owner has given.
  int error = 0;
  std::size_t overflow = 0;  ///< bytes that did not fit
  int detail = 0;            ///< the owner's, 0 for those that the matcher finds
};

/// Takes the outcomes of receives.
class MatchReports {
 public:
  virtual ~MatchReports() = default;
  virtual void on_received(const Received& received) = 0;
  virtual void on_receive_failure(const ReceiveFailure& failure) = 0;
  struct Cause {
    int error, detail;
  };
  /// An error of the transport in the owner's numbers.
  virtual Cause cause_of(const Error& error) = 0;
};

/// Learns of unexpected messages (backpressure.hpp).
class MatchEvents {
 public:
  virtual ~MatchEvents() = default;
  /// A message from `from` was kept, and the kept messages exceed the limit.
  virtual void on_too_many(Peer /*from*/) {}
  /// The kept messages have fallen below the bound of set_room().
  virtual void on_room() {}
  /// A message was announced. `awaited`: a receive waits for it.
  virtual void on_announced(Peer /*from*/, bool /*awaited*/) {}
  /// A receive needs the message that `from` has announced under this id.
  virtual void fetch(Peer /*from*/, std::uint64_t /*id*/, std::uint64_t /*token*/) {}
  /// The announced message is not wanted.
  virtual void forget(Peer /*from*/, std::uint64_t /*id*/) {}
  /// A probe has found no message. Returns the error to report.
  virtual MatchReports::Cause on_probe_in_vain(Peer source);
};

class Matcher {
 public:
  Matcher(MatchReports& reports, MatchEvents& events) : reports_(reports), events_(events) {}
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// A multi-receive buffer is released when fewer than this many bytes remain.
  void set_min_multi_receive(std::size_t bytes) { min_multi_receive_ = bytes; }
  std::size_t min_multi_receive() const { return min_multi_receive_; }

  /// By default the source of a message is its peer. From now on it is the number in Header::data,
  /// if that is below `count`.
  void number_sources(std::uint32_t count) { numbered_ = count; }
  /// The source of a peer's messages, known before the first of them.
  void introduce(Peer peer, std::uint32_t source);
  /// any_source if nobody knows it yet.
  std::uint32_t source_of(Peer peer) const;
  Peer peer_of(std::uint32_t source) const;

  // ---- reports of the transport ----
  /// Takes a small message; returns the buffer for a longer one.
  ReceiveBuffer message(const Message& message) {
    if (message.payload == nullptr && message.header.bytes != 0) return begin(message);
    if ((message.header.kind & kind_announced) != 0) [[unlikely]]
      announced(message);
    else
      take_small(message.from, message.header, message.payload);
    return {};
  }
  /// The payload of an announced message. Header::tag is the token of the fetch, or 0 if the sender
  /// did not wait for one; Header::data is the sender's id.
  ReceiveBuffer payload(const Message& message);
  /// Records that a tagged message is sent to the peer.
  void sends_to(Peer peer, std::uint64_t tag) {
    if (numbered_ == 0) contexts_.with(peer, tag);
  }
  /// Fails receives that name `peer`, now and later, and wildcard receives that the peer could have
  /// matched, as far as is known. `life` distinguishes it from a later peer of the same number.
  void peer_dead(Peer peer, std::uint32_t life, int error, int detail);
  /// Fails receives that name `peer`, now and later; wildcard receives continue.
  void peer_left(Peer peer, std::uint32_t life, int error, int detail);
  /// Where sources are numbered: `source` has no peer and will have none. Fails receives that name
  /// it, now and later; any_source: those from any source.
  void source_gone(std::uint32_t source, int error, int detail);
  /// A message of the peer, which lives, was lost: as peer_left(), and the peer may forget what it
  /// has announced.
  void refuse(Peer peer, std::uint32_t life, int error, int detail);
  /// The number belongs to this peer now: forgets the death of an earlier peer.
  void peer_present(Peer peer, std::uint32_t life);

  // ---- requests of the user; 0 or a negative errno ----
  int post(const ReceiveRequest& request);
  enum class Peek { look, claim, discard };
  int peek(const ReceiveRequest& request, Peek how);
  /// Receives the message that a peek claimed under request.context.
  int receive_claimed(const ReceiveRequest& request);
  int discard_claimed(const ReceiveRequest& request);
  /// Cancels a posted receive. -ENOENT if none has this context.
  int cancel(void* context);

  // ---- unexpected messages ----
  const Unexpected& unexpected() const { return unexpected_; }
  static std::uint64_t announced_bytes() { return sizeof(Incoming); }
  /// Sets the limit in bytes: on_too_many() is called for each kept message beyond it.
  void set_limit(std::uint64_t bytes) { limit_ = bytes; }
  /// Sets a bound in bytes: on_room() is called once when fewer are kept.
  void set_room(std::uint64_t bytes) { room_ = bytes; }
  /// True if a tagged receive is posted that a message of the peer could match.
  bool awaits(Peer peer) const;
  /// Fails the receives that awaits() looks for.
  void fail_awaiting(Peer peer, int error, int detail);

  std::size_t posted_count() const { return lanes_[0].posted.size() + lanes_[1].posted.size(); }
  /// Describes the oldest tagged receive. Untagged ones do not count: they wait for no particular
  /// message.
  transport::PendingReceives pending_receives() const;
  /// The buffer of the oldest tagged receive.
  transport::PostedReceive posted();

 private:
  struct Receive : ReceiveRequest, Item<Receive> {
    explicit Receive(const ReceiveRequest& request)
        : ReceiveRequest(request), capacity(transport::iov_bytes(iov, iov_count)) {}
    const void* name() const { return context; }

    std::uint64_t capacity;
    std::uint32_t in_flight = 0;               ///< messages arriving in a multi-receive buffer
    bool retired = false;                      ///< takes no more messages
    transport::InvalidatedPrefix invalidated;  ///< for a contiguous buffer
    int end_error = 0, end_detail = 0;         ///< reported when the last message in flight is in
  };

  static constexpr std::size_t inline_bytes = 64;
  /// Payloads up to this length are kept in recycled memory.
  struct Small {
    alignas(16) std::byte bytes[512];
  };
  /// A message that has begun to arrive: into a receive's buffer, or kept until one is posted.
  struct Incoming final : transport::Arrival, Item<Incoming> {
    void arrived() override { matcher->arrived(this); }
    void failed(const Error& error) override { matcher->failed(this, error); }

    std::uint32_t sender() const { return source; }
    Peer announcer() const { return from; }
    std::uint64_t tag() const { return header.tag; }

    Matcher* matcher;
    Header header;
    Peer from;
    std::uint32_t source;
    bool arriving;  ///< payload not complete
    bool direct;    ///< lands in `receive`'s own buffer
    bool discarded;
    bool peeked;       ///< a wildcard peek has found it before
    bool claimed;      ///< by a peek, under claim_context
    bool announced;    ///< its payload is at the sender, under `id`
    Receive* receive;  ///< the receive that owns it; null: none yet
    void* claim_context;
    std::uint64_t id;
    std::uint64_t kept_bytes;  ///< bytes counted as unexpected; 0: not unexpected
    std::byte* heap;           ///< the payload if longer than inline_bytes
    iovec receive_buffer;      ///< where the transport puts it
    iovec part;                ///< its place in a multi-receive buffer
    alignas(16) std::byte inline_payload[inline_bytes];
    /// True if it arrives in our memory, and is already matched or to be discarded.
    bool posted() const { return discarded || (receive != nullptr && !direct); }
    std::byte* payload() { return heap != nullptr ? heap : inline_payload; }
  };
  struct Dead {
    Peer peer;
    std::uint32_t source;
    std::uint32_t life;
    int error, detail;
    bool only_named;  ///< the peer left in order: wildcard receives continue
    bool lives;       ///< and must be told to forget its announced messages
    std::vector<std::uint32_t> contexts;
    bool all = false;  ///< ends receives from any source, and no others
    bool ends(const ReceiveRequest& receive) const;
  };
  struct Lane {
    PostedQueue<Receive> posted;
    ArrivedQueue<Incoming> unexpected;
  };

  Lane& lane_of(bool tagged) { return lanes_[tagged ? 1 : 0]; }
  /// The source of a message that arrives.
  std::uint32_t source_of(Peer from, const Header& header) {
    if (numbered_ != 0) return numbered_source(from, header);
    if ((header.kind & kind_tagged) != 0) contexts_.with(from, header.tag);
    return from;
  }
  std::uint32_t numbered_source(Peer from, const Header& header);
  void take_small(Peer from, const Header& header, const void* payload);
  ReceiveBuffer begin(const Message& message);
  ReceiveBuffer begin_posted(Lane& lane, Receive* receive, Incoming* incoming);
  ReceiveBuffer begin_unexpected(Lane& lane, Incoming* incoming);
  bool make_payload(Incoming* incoming);
  void count_kept(Incoming* incoming);
  void announced(const Message& message);
  void fetch(Receive* receive, Incoming* incoming);
  Incoming* find_announced(Peer from, std::uint64_t token, std::uint64_t id);
  void forget_announced(const Dead& dead);
  void arrived(Incoming* incoming);
  void failed(Incoming* incoming, const Error& error);
  Incoming* keep(Peer from, std::uint32_t source, const Header& header);
  void release(Incoming* incoming);
  void drop(Incoming* incoming);
  Receive* make_receive(const ReceiveRequest& request) { return receives_.take(request); }

  iovec reserve(Receive* receive, std::uint64_t bytes);
  void finish(Receive* receive, Peer from, const Header& header, void* buffer,
              std::uint64_t capacity);
  void finish_multi(Receive* receive, const Received& received, std::uint64_t overflow, int error,
                    int detail);
  void fail(Receive* receive, Peer from, const Header& header, int error, int detail);
  void end_waiting(Lane& lane, Receive* receive, Peer peer, int error, int detail);
  void take(Receive* receive, Incoming* incoming);
  void hand_over(Receive* receive, Incoming* incoming);
  bool drain_unexpected(Lane& lane, Receive* receive);
  void gone(Dead dead);
  void fail_waiting(Lane& lane, const Dead& dead);
  void report_no_memory(Peer from, const Header& header);
  Incoming* find_claimed(void* context);

  MatchReports& reports_;
  MatchEvents& events_;
  Lane lanes_[2];
  List<Incoming> claimed_;
  List<Incoming> posted_;  ///< messages that are still arriving
  FreeList<Receive> receives_;
  FreeList<Incoming> incomings_;
  FreeList<Small> smalls_;
  Fetched<Incoming> fetched_;  ///< requested for a receive
  Unexpected unexpected_;
  std::uint64_t limit_ = ~std::uint64_t{0}, room_ = 0;
  std::size_t min_multi_receive_ = 64;
  std::vector<Dead> dead_;
  Contexts contexts_;  ///< empty where sources are numbered
  std::uint32_t numbered_ = 0;
  std::vector<std::uint32_t> sources_;  ///< by peer, where sources are numbered
};

}  // namespace penstock::messages
