// Two-sided messages through the pool. An endpoint owns its channels' memory; a channel is a
// single-producer single-consumer ring made on first use. Protocol by cache line, with the count
// of serialized device accesses: docs/protocols/channel.md. Source: cMPI section 3.3;
// memory-model "Two-sided: channels".
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

/// Endpoints that a pool for 16,384 processes or more has beyond the first of each process; a
/// smaller one has as many as processes, 64 at least.
inline constexpr std::uint32_t max_endpoints = 16384;

/// Slots of the endpoint table of a pool for so many processes at once: one for the first endpoint
/// of each, and the others.
constexpr std::uint32_t endpoints_of_pool(std::uint32_t processes) {
  const std::uint32_t others = processes < max_endpoints ? processes : max_endpoints;
  return processes + (others > 64 ? others : 64);
}
/// No table has more: the pool's slots of processes have 15 bits.
inline constexpr std::uint32_t max_slots = endpoints_of_pool(1u << 15);

/// The address by which others reach an endpoint. Plain bytes; may be copied and sent anywhere.
struct Address {
  std::uint64_t pool_id;
  std::uint64_t job;         ///< hash of the job key: endpoints of another job are refused
  std::uint32_t slot;        ///< Peer
  std::uint32_t generation;  ///< of the slot: a later endpoint there is another one
};
static_assert(sizeof(Address) == 24);

/// Travels with every message; the transport does not look at it.
struct Header {
  std::uint64_t tag = 0;
  std::uint64_t data = 0;
  std::uint64_t bytes = 0;  ///< payload
  std::uint8_t kind = 0;    ///< the user's, 0..63
};

/// The prefix of a receive buffer in the pool that is invalidated, ready for a sender's stores. A
/// new one for each receive: its user may have stored to the buffer since the last.
struct InvalidatedPrefix {
  std::uint64_t bytes = 0;  ///< length
  pthread_t thread{};       ///< that has invalidated it
  bool done = false;        ///< nothing is left to invalidate

  /// The length of which this node's caches hold no copies after this thread's next load fence. The
  /// fence of a thread completes its own invalidations only.
  std::uint64_t of_this_thread() const;
};

/// A contiguous receive buffer that waits for a message; its user does not touch it.
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
  unexpected,  ///< no receive waits: the buffer is memory to keep it in
  /// No receive waits, and Message::may_wait: the message stays in the pool, and so do later ones
  /// of its sender. The transport asks again at the next calls of progress, for some 20 us at most.
  later,
  /// As `later`, where Message::may_wait_for_room, for 1 ms at most: the sender is told meanwhile
  /// that its messages find no room.
  no_room
};

/// The owner of a receive buffer. The transport calls it once, with the message's outcome.
class Arrival {
 public:
  /// All of the payload is in the buffer.
  virtual void arrived() = 0;
  /// The payload will never be complete: the peer died or closed meanwhile.
  virtual void failed(const Error& error) = 0;

 protected:
  ~Arrival() = default;
};

/// Destination of a message's payload. `iov` and `arrival` stay valid until the report; bytes
/// beyond the capacity are dropped (the owner knows the message's length and reports that).
struct ReceiveBuffer {
  const iovec* iov = nullptr;
  std::uint32_t iov_count = 0;
  Arrival* arrival = nullptr;     ///< null: no report
  std::uint64_t invalidated = 0;  ///< InvalidatedPrefix::of_this_thread(), if it was posted
  Match match = Match::posted;
};

/// A message on its way out. Owned by the caller, not moved until on_sent or on_send_failed, or
/// until the endpoint is gone; its buffers may go when the endpoint begins to close. The receiver
/// reads a buffer that lies in the pool in place, so on_sent comes when it has copied everything;
/// until then no process may destroy that pool memory.
struct SendOp {
  Header header;
  iovec iov[max_iov] = {};
  std::uint32_t iov_count = 0;
  bool notify_delivered = false;  ///< on_sent only when the receiver has consumed all of it
  bool urgent = false;  ///< overtakes all that is queued, but for what has begun or is urgent too
  // the transport's own
  std::uint64_t sent_bytes = 0, position = 0;
  std::uint32_t get_lines = 0;  ///< lines of a rendezvous get, else 0
  SendOp* next = nullptr;
};

/// Receives that the user of an endpoint waits for, for `penstock ps`.
struct PendingReceives {
  std::uint32_t receives = 0;  ///< 0: none
  bool from_anybody = true;    ///< the oldest of them names no sender
  Peer from = 0;
  std::uint64_t tag = 0;
};

/// Callbacks by which an endpoint delivers messages and reports sends. Called from
/// Endpoint::progress only (and from send() to the endpoint itself).
class EndpointCallbacks {
 public:
  virtual ~EndpointCallbacks() = default;
  /// Takes a message, and returns the buffer for the payload of a longer one; the result for a
  /// small one is ignored. Messages of one peer come in the order sent.
  virtual ReceiveBuffer on_message(const Message& message) = 0;
  /// The buffers of `op` may be used again (or it was delivered, see notify_delivered).
  virtual void on_sent(SendOp* op) = 0;
  virtual void on_send_failed(SendOp* op, const Error& error) = 0;
  /// Called once for a peer, after all failures of its operations.
  virtual void on_peer_dead(Peer peer, const std::string& description) = 0;
  /// Called once for a peer that has closed in order: nothing more will come from it.
  virtual void on_peer_left(Peer, const std::string& /*description*/) {}
};

struct Options {
  std::string job;  ///< job key; endpoints reach each other only within one
  /// Called while a closing endpoint waits for its peers, for peers that this thread must progress.
  std::function<void()> while_closing = {};
  /// Time that a closing endpoint waits for its peers; 0: PENSTOCK_TIMEOUT_MS.
  std::uint64_t closing_timeout_ns = 0;
  /// Closing gives no warning if peers have not taken everything by then: it stays for them.
  bool peers_may_take_later = false;
};

/// Limits that follow from the pool's mode.
struct Limits {
  std::uint32_t inject_bytes;  ///< largest message that try_inject takes
  std::uint32_t small_bytes;   ///< largest message that arrives complete, in on_message
};

struct EndpointStats {
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
  std::uint64_t stalls = 0;   ///< checks for credit that found none
  std::uint64_t retries = 0;  ///< checks in vain for the rest of a message that had begun

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

/// Counts of an endpoint and one of its peers, as it last published them, some 20 ms ago.
struct PeerCounts {
  Peer endpoint = 0, peer = 0;
  std::uint64_t token = 0;       ///< process of the endpoint
  std::uint64_t peer_token = 0;  ///< process of the peer, 0 when its endpoint is closed
  EndpointStats counts;
};
/// The counts of all open endpoints of the pool that have exchanged messages. Skips implausible
/// rows.
std::vector<PeerCounts> peer_counts(arena::Arena& arena);

/// Not thread-safe: one thread at a time (FI_THREAD_DOMAIN).
/// Hot path (try_inject, send, progress): no system call, no allocation, no lock.
class Endpoint {
 public:
  /// Takes a slot of the endpoint table and memory for its mailbox.
  static Result<std::unique_ptr<Endpoint>> open(arena::Arena& arena, EndpointCallbacks& callbacks,
                                                const Options& options);
  /// Drops sends that have not left yet; peers see the endpoint closed.
  ~Endpoint();

  Address address() const;
  const Limits& limits() const;
  /// Checks pool, job, slot, generation. Errors: mismatch, not_found (closed or never there).
  Result<Peer> resolve(const Address& address);
  /// Publishes a word for peers, such as the offset of a table; 0: none, the initial value. Peers
  /// find it once this has returned. Takes the pool's lock.
  Result<void> set_user_word(std::uint64_t user_word);
  /// The word that a resolved peer has set. One device access. Errors: not_found (closed).
  Result<std::uint64_t> user_word_of(Peer peer) const;
  /// The address that `peer` had when its channel was made; for naming unknown senders.
  Address address_of(Peer peer) const;
  /// The process of a peer, for messages: "rank 3 (pid 4711 on host a)".
  std::string describe(Peer peer) const;

  /// Copies the payload into the pool. False: no credit now (call progress and try again), also
  /// while earlier sends to that peer are queued. Errors: peer_dead, invalid_argument (too long).
  Result<bool> try_inject(Peer to, const Header& header, const void* payload);
  /// True: complete, on_sent will not be called. False: queued. Order among all sends to one
  /// peer is kept. Errors: peer_dead, no_space (pool full: no channel can be made).
  Result<bool> send(Peer to, SendOp* op);
  /// Generation of the endpoint whose messages came from `from` last; 0: none came.
  std::uint32_t sender_generation(Peer from) const;
  /// As send(), to the endpoint of this generation, resolved or not. Further errors: not_found (it
  /// was closed, and another has its slot).
  Result<bool> answer(Peer to, std::uint32_t generation, SendOp* op);
  /// Reports to a peer that sent messages that one of them cannot be answered; `code` is the
  /// user's, 1 to 4095. Needs no memory, where an answer may find none.
  void tell_trouble(Peer from, std::uint32_t code);
  /// The code that a peer has reported by tell_trouble() since the last call; 0: none. One device
  /// access.
  std::uint32_t trouble_of(Peer to);
  /// Takes a queued op back if none of it has left. True: it will not be sent.
  bool cancel(Peer to, SendOp* op);
  /// Takes back all queued ops of which none has left and that `wanted` accepts, in order, linked
  /// by SendOp::next. Null: none.
  SendOp* take_back(Peer to, bool (*wanted)(const SendOp&));

  /// Makes progress for some 50 us at most. Returns 0 if nothing moved, else the number of events
  /// that were reported and of long messages that have advanced.
  unsigned progress();
  /// Returns all credits to the peers at once. Peers that close wait for them, so an endpoint that
  /// will not call progress() for a while calls this.
  void return_credits();
  /// Invalidates some of the buffer of the receive that will probably match next, which takes less
  /// than a microsecond. To be called when progress() has returned 0.
  void prepare(const PostedReceive& posted);
  /// True if nothing has moved for a while: report_waiting() makes `penstock ps` more precise.
  bool wants_report_of_waiting() const;
  void report_waiting(const PendingReceives& pending);
  /// The user probes for unexpected messages: none is deferred for the next 0.1 s.
  void flush();
  /// True if nothing is queued or half received, and peers have consumed all that was sent.
  bool drained() const;

  EndpointStats stats() const;

  struct Impl;
  explicit Endpoint(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::transport
