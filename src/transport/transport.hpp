// Two-sided messages through the pool. An endpoint owns its channels' memory; a channel is a
// single-producer single-consumer ring made on first use. Protocol by cache line, with the count
// of serialized device accesses: docs/protocols/channel.md. Source: cMPI, section 3.3.
#pragma once

#include <pthread.h>
#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arena/arena.hpp"

namespace penstock::transport {

/// Index of an endpoint in the pool's endpoint table; names a peer in all calls here.
using Peer = std::uint32_t;
inline constexpr std::uint32_t max_iov = 4;

/// Limit of endpoints beyond the first of each process. A pool for fewer than 16,384 processes has
/// as many as processes, but at least 64.
inline constexpr std::uint32_t max_endpoints = 16384;

/// Slots of the endpoint table of a pool for this many concurrent processes: one for the first
/// endpoint of each process, and the slots for further endpoints.
constexpr std::uint32_t endpoints_of_pool(std::uint32_t processes) {
  const std::uint32_t others = processes < max_endpoints ? processes : max_endpoints;
  return processes + (others > 64 ? others : 64);
}
/// Limit of any table: process slots have 15 bits.
inline constexpr std::uint32_t max_slots = endpoints_of_pool(1u << 15);

/// The address by which peers reach an endpoint. Plain bytes; may be copied and sent anywhere.
struct Address {
  std::uint64_t pool_id;
  std::uint64_t job;         ///< hash of the job key: endpoints of another job are refused
  std::uint32_t slot;        ///< Peer
  std::uint32_t generation;  ///< of the slot: identifies one of its successive endpoints
};
static_assert(sizeof(Address) == 24);

/// Travels with every message; the transport does not interpret it.
struct Header {
  std::uint64_t tag = 0;
  std::uint64_t data = 0;
  std::uint64_t bytes = 0;  ///< payload
  std::uint8_t kind = 0;    ///< defined by the user, 0..63
};

/// The prefix of a receive buffer in the pool that is invalidated and ready for a sender's stores.
/// Each receive needs a new one: the user may have stored to the buffer since the last receive.
struct InvalidatedPrefix {
  std::uint64_t bytes = 0;  ///< length
  pthread_t thread{};       ///< the thread that invalidated it
  bool done = false;        ///< nothing is left to invalidate

  /// After this thread's next load fence this node's caches hold no copies of this many bytes. A
  /// load fence completes only the thread's own invalidations.
  std::uint64_t of_this_thread() const;
};

/// A contiguous receive buffer that waits for a message. Its user must not touch it.
struct PostedReceive {
  std::byte* at = nullptr;
  std::uint64_t bytes = 0;
  InvalidatedPrefix* invalidated = nullptr;  ///< null: no receive waits
};

/// A message that has arrived. A small one is complete; the payload of a longer one is still in
/// the pool.
struct Message {
  Peer from;
  const Header& header;
  const void* payload = nullptr;   ///< valid during the call; null: still in the pool
  bool may_wait = false;           ///< Match::later is allowed
  bool may_wait_for_room = false;  ///< Match::no_room is allowed
};

enum class Match : std::uint8_t {
  posted,      ///< a receive waits for the message
  unexpected,  ///< no receive waits: the message goes to a temporary buffer
  /// No receive waits, and Message::may_wait is set: this message and the sender's later ones stay
  /// in the pool. The transport asks again in the next calls of progress(), for about 20 us at
  /// most.
  later,
  /// As `later` if Message::may_wait_for_room is set, for 1 ms at most. Meanwhile the sender is
  /// notified that its messages find no room.
  no_room
};

/// The owner of a receive buffer. The transport calls it once, with the outcome.
class Arrival {
 public:
  /// The buffer holds the whole payload.
  virtual void arrived() = 0;
  /// The payload will never be complete: the peer died or closed before the end.
  virtual void failed(const Error& error) = 0;

 protected:
  ~Arrival() = default;
};

/// Destination of a message's payload. `iov` and `arrival` stay valid until the report. Bytes
/// beyond the capacity are dropped; the owner knows the message's length and reports truncation.
struct ReceiveBuffer {
  const iovec* iov = nullptr;
  std::uint32_t iov_count = 0;
  Arrival* arrival = nullptr;  ///< null: no report
  std::uint64_t invalidated =
      0;  ///< InvalidatedPrefix::of_this_thread(), if the receive was posted
  Match match = Match::posted;
};

/// An outgoing message. The caller owns it and keeps it in place until on_sent or on_send_failed,
/// or until the endpoint is destroyed; the buffers may be freed once the endpoint begins to close.
/// If a buffer lies in the pool, the receiver copies from it directly and on_sent follows the copy;
/// until then no process may destroy that pool memory.
struct SendOp {
  Header header;
  iovec iov[max_iov] = {};
  std::uint32_t iov_count = 0;
  bool notify_delivered = false;  ///< on_sent only after the receiver has consumed the message
  bool urgent = false;  ///< overtakes all queued messages except those begun or urgent too
  // used by the transport
  std::uint64_t sent_bytes = 0, position = 0;
  std::uint64_t get_offset = 0;  ///< of a rendezvous get's payload in the pool
  std::uint32_t get_lines = 0;   ///< lines of a rendezvous get, else 0
  std::uint8_t form = 0;         ///< Form of a message that has begun
  SendOp* next = nullptr;
};

/// Pending receives of an endpoint's user, for `penstock ps`.
struct PendingReceives {
  std::uint32_t receives = 0;  ///< 0: none
  bool from_anybody = true;    ///< the oldest one names no sender
  Peer from = 0;
  std::uint64_t tag = 0;
};

/// Callbacks by which an endpoint delivers messages and reports sends. Called from
/// Endpoint::progress only (and from send() to the endpoint itself).
class EndpointCallbacks {
 public:
  virtual ~EndpointCallbacks() = default;
  /// Takes a message. For a longer one, returns the buffer for the payload; the result for a small
  /// message is ignored. Messages of one peer are delivered in the order sent.
  virtual ReceiveBuffer on_message(const Message& message) = 0;
  /// The buffers of `op` may be used again; with notify_delivered, the receiver has consumed it.
  virtual void on_sent(SendOp* op) = 0;
  virtual void on_send_failed(SendOp* op, const Error& error) = 0;
  /// Called once for a peer, after all failures of its operations.
  virtual void on_peer_dead(Peer peer, const std::string& description) = 0;
  /// Called once for a peer that closed in order. It sends nothing more.
  virtual void on_peer_left(Peer, const std::string& /*description*/) {}
};

struct Options {
  std::string job;  ///< job key; only endpoints of one job reach each other
  /// Called while a closing endpoint waits for peers, to progress endpoints of the same thread.
  std::function<void()> while_closing = {};
  /// Limit of the wait of a closing endpoint for its peers; 0: PENSTOCK_TIMEOUT_MS.
  std::uint64_t closing_timeout_ns = 0;
  /// If peers have not consumed everything by then, closing gives no warning: the data stay.
  bool peers_may_take_later = false;
  /// Whether the processes of peers may have attached with other jobs than this one's
  /// (pool::AttachOptions::job). Costs a read of two lines for each peer, and the pool's lock for
  /// those of another job.
  bool peers_may_be_of_other_jobs = false;
};

/// Limits that depend on the pool's mode.
struct Limits {
  std::uint32_t inject_bytes;  ///< largest message that try_inject takes
  std::uint32_t small_bytes;   ///< largest message that on_message gets complete
};

struct EndpointStats {
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
  std::uint64_t stalls = 0;   ///< checks for credit that found none
  std::uint64_t retries = 0;  ///< checks for the rest of a begun message that found nothing

  EndpointStats& operator+=(const EndpointStats& other) {
    messages_sent += other.messages_sent;
    bytes_sent += other.bytes_sent;
    messages_received += other.messages_received;
    bytes_received += other.bytes_received;
    stalls += other.stalls;
    retries += other.retries;
    return *this;
  }
  bool operator==(const EndpointStats&) const = default;
};

/// Counts for an endpoint and one of its peers, published about every 20 ms.
struct PeerCounts {
  Peer endpoint = 0, peer = 0;
  std::uint64_t token = 0;       ///< owning process of the endpoint
  std::uint64_t peer_token = 0;  ///< owning process of the peer, 0 when its endpoint is closed
  EndpointStats counts;
};
/// The counts of all open endpoints of the pool that have exchanged messages. Skips implausible
/// rows.
std::vector<PeerCounts> peer_counts(arena::Arena& arena);

/// Not thread-safe: one thread at a time (FI_THREAD_DOMAIN).
/// Hot path (try_inject, send, progress): no system call, no allocation, no lock, except when it
/// makes, moves, shrinks or repairs a channel or its cells. It takes the pool's lock then, and
/// waits for it 10 ms at most where the message can go without.
class Endpoint {
 public:
  /// Takes a slot of the endpoint table and memory for its mailbox.
  static Result<std::unique_ptr<Endpoint>> open(arena::Arena& arena, EndpointCallbacks& callbacks,
                                                const Options& options);
  /// Drops sends that have not begun; peers see the endpoint closed.
  ~Endpoint();

  Address address() const;
  const Limits& limits() const;
  /// Checks pool, job, slot, generation. Errors: mismatch, not_found (closed or never opened).
  Result<Peer> resolve(const Address& address);
  /// Publishes a word for peers, such as the offset of a table; 0, the initial value: none. Peers
  /// find it after this call has returned. Takes the pool's lock.
  Result<void> set_user_word(std::uint64_t user_word);
  /// The user word of a resolved peer. One device access. Errors: not_found (closed).
  Result<std::uint64_t> user_word_of(Peer peer) const;
  /// The address of `peer` when its channel was made; names unknown senders.
  Address address_of(Peer peer) const;
  /// The process of a peer, for messages: "rank 3 (pid 4711 on host a)".
  std::string describe(Peer peer) const;

  /// Copies the payload into the pool. False: no credit now, or earlier sends to the peer are
  /// queued (call progress and try again). Errors: peer_dead, invalid_argument (too long).
  Result<bool> try_inject(Peer to, const Header& header, const void* payload);
  /// True: complete, on_sent will not be called. False: queued. Sends to one peer keep their order.
  /// Errors: peer_dead, no_space (pool full: no channel can be made).
  Result<bool> send(Peer to, SendOp* op);
  /// Generation of the endpoint that `from` last sent messages as; 0: none yet.
  std::uint32_t sender_generation(Peer from) const;
  /// As send(), to the endpoint of this generation, resolved or not. Further errors: not_found (it
  /// was closed, and its slot has a new owner).
  Result<bool> answer(Peer to, std::uint32_t generation, SendOp* op);
  /// Reports to a peer that a message of it cannot be answered; `code` is defined by the user, 1 to
  /// 4095. Needs no pool memory, unlike an answer.
  void send_error(Peer from, std::uint32_t code);
  /// The code that a peer reported by send_error() since the last call; 0: none. One device
  /// access.
  std::uint32_t take_error(Peer to);
  /// Takes a queued op back if it has not begun. True: it will not be sent.
  bool cancel(Peer to, SendOp* op);
  /// Takes back all queued ops that have not begun and that `wanted` accepts, in order, linked by
  /// SendOp::next. Null: none.
  SendOp* take_back(Peer to, bool (*wanted)(const SendOp&));

  /// Makes progress, for about 50 us at most. Returns 0 if nothing moved, else the number of
  /// reported events and of long messages that have advanced.
  unsigned progress();
  /// Returns all credits to the peers at once. Peers that close wait for credits, so call this
  /// before a long time without progress().
  void return_credits();
  /// Invalidates a part of the buffer of the receive that will probably match next; takes less than
  /// a microsecond. Call it when progress() has returned 0.
  void prepare(const PostedReceive& posted);
  /// True if nothing has moved for a while: report_waiting() then makes `penstock ps` more precise.
  bool wants_report_of_waiting() const;
  void report_waiting(const PendingReceives& pending);
  /// Turns deferral of unexpected messages off for 0.1 s; for a user that probes for them.
  void stop_deferring();
  /// True if nothing is queued or half received, and peers have consumed everything sent.
  bool drained() const;

  EndpointStats stats() const;

  struct Impl;
  explicit Endpoint(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::transport
