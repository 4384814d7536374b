// Makes a flood of messages wait instead of filling memory. A receiver that keeps more unexpected
// messages than PENSTOCK_UNEXPECTED_BYTES tells their senders to announce: later messages stay with
// the sender, in the user's buffer, and only an announcement, one line, goes to the receiver. The
// announcement is matched like any message; once it has met a receive, the payload is fetched. So a
// send from the user's buffer completes when its message is received. Long messages are always
// announced: by default those of a 16th of that variable, and shorter ones if the user asks for it.
//
// Announcements are bounded too: a sender may have a number of them outstanding, and further
// messages wait with it. The number grows when a receive is posted, or a probe made, that only a
// later message could answer. The sender also keeps messages that were sent by copy and have not
// left, up to the same bound; beyond it the caller waits. Why no program waits for ever:
// docs/decisions/0032.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/copies.hpp"
#include "messages/intrusive_lists.hpp"
#include "messages/wire.hpp"

namespace penstock::messages {

/// Announcements that a sender may have outstanding at first.
inline constexpr std::uint64_t first_window = 64;

/// A send that may have to be announced.
struct AnnouncedSend : transport::SendOp {
  enum class Stage : std::uint8_t {
    plain,       ///< sent as it is
    waiting,     ///< to be announced
    announcing,  ///< its announcement is in flight
    announced,
    payload  ///< fetched, or released
  };
  AnnouncedSend* prev = nullptr;
  AnnouncedSend* next = nullptr;
  Peer peer = 0;
  Stage stage = Stage::plain;
  bool copy = false;        ///< the payload is a copy: the user's call has ended
  bool delivered = false;   ///< SendOp::notify_delivered of the message
  std::uint64_t token = 0;  ///< of a fetch that arrived while it was being announced
  Announcement announcement;
  // the message itself, while SendOp is its announcement
  Header message;
  iovec pieces[transport::max_iov];
  std::uint32_t piece_count;

  const Header& message_header() const { return stage == Stage::plain ? header : message; }
};

/// Unexpected messages that a receiver keeps.
struct Unexpected {
  std::uint64_t messages = 0, bytes = 0;  ///< whole messages, with the overhead of keeping them
  std::uint64_t announced = 0;            ///< messages whose payload is still at the sender
  std::uint64_t peak_bytes = 0, peak_announced = 0;
};

/// The user of the messages.
class BackpressureOwner {
 public:
  // ---- sender ----
  /// Called for operations that this module handed to the transport, as in EndpointCallbacks.
  virtual void on_sent(transport::SendOp* op) = 0;
  virtual void on_send_failed(transport::SendOp* op, const Error& error) = 0;
  /// The send has ended, successfully or not.
  virtual void end_send(AnnouncedSend* op) = 0;
  virtual void fail_send(AnnouncedSend* op, const Error& error) = 0;
  // ---- receiver ----
  /// Sends a call, with priority, as soon as it can.
  virtual void post_call(Peer to, const Header& header, const std::uint64_t* token) = 0;
  virtual const Unexpected& kept() const = 0;
  virtual std::uint64_t announced_bytes() const = 0;  ///< memory that one announcement takes
  /// Asks the owner to call Backpressure::room() once, when fewer bytes than this are kept.
  virtual void set_room(std::uint64_t bytes) = 0;
  /// True if a posted receive could match messages of the peer.
  virtual bool awaits(Peer peer) const = 0;
  /// Fails these receives.
  virtual void fail_awaiting(Peer peer, const std::string& why) = 0;

 protected:
  ~BackpressureOwner() = default;
};

class Backpressure {
 public:
  explicit Backpressure(BackpressureOwner& owner) : owner_(owner) {}
  Backpressure(const Backpressure&) = delete;
  Backpressure& operator=(const Backpressure&) = delete;

  /// Reads PENSTOCK_UNEXPECTED_BYTES. Messages of more than `announced_from` bytes are always
  /// announced. Errors: invalid_argument.
  Result<void> set_up(transport::Endpoint& transport,
                      std::uint64_t announced_from = ~std::uint64_t{0});
  /// In bytes. For each message kept beyond it the owner calls Backpressure::too_many().
  std::uint64_t limit() const { return limit_; }

  // ---- sender ----
  /// True if a message to this peer must be announced.
  bool concerns(Peer to, const Header& header) const {
    return (held_ != 0 || header.bytes > announced_from_) && must_announce(to, header);
  }
  /// Bytes after which a program that only sends must poll for calls of its receivers.
  std::uint64_t poll_interval_bytes() const { return poll_interval_bytes_; }
  /// Takes over a message for which concerns() is true. Its end is reported to the owner.
  void add(AnnouncedSend* op);
  /// Cancels a send of which nothing has left but an announcement that the receiver has not
  /// matched. Returns false if the send will end by itself, or is unknown here.
  bool cancel(AnnouncedSend* op);
  enum class Room : std::uint8_t {
    yes,
    wait,  ///< the caller tries again later
    never  ///< it waited in vain for PENSTOCK_TIMEOUT_MS, and others wait for this rank
  };
  /// Whether `bytes` more may be copied for sends to `to`.
  Room may_copy(Peer to, std::uint64_t bytes);
  void copied(std::uint64_t bytes) { copies_.begun(bytes); }
  void copy_ended(std::uint64_t bytes) { copies_.ended(bytes); }
  std::uint64_t copied() const { return copies_.bytes(); }
  /// Sends all copies now, fetched or not: the endpoint closes.
  void send_copies_now();
  /// The transport has sent an announcement.
  void sent(AnnouncedSend* op);
  void unsent(AnnouncedSend* op);
  void call(Peer from, const Header& header, const void* payload);

  // ---- receiver ----
  void too_many(Peer from);
  void room();
  /// An announcement has arrived. `awaited`: a receive waits for it.
  void announced(Peer from, bool awaited);
  /// A receive was found for an announced message, or none will ever be.
  void fetch(Peer from, std::uint64_t id, std::uint64_t token);
  void forget(Peer from, std::uint64_t id);
  /// True if this rank holds back some sender.
  bool holds() const { return holding_ != 0; }
  /// A receive was posted, or a probe made, that did not find its message. Returns null, or a text
  /// that says why the message will not come: receives that wait for `source` have then failed.
  const std::string* wanted(Peer source) { return holding_ == 0 ? nullptr : look_further(source); }

  /// The peer has died or left.
  void gone(Peer peer, const Error& error);
  /// Logs a summary, at level info.
  void print() const;

 private:
  using Sends = List<AnnouncedSend>;
  struct To {
    bool held = false;
    std::uint64_t window = 0, outstanding = 0;
    Sends waiting;
  };
  struct From {
    bool held = false;
    std::uint64_t window = 0;
    std::uint64_t announced = 0;  ///< announced and not fetched
    bool reported = false;        ///< it was told that it has sent too many
  };

  bool must_announce(Peer to, const Header& header) const;
  To& to(Peer peer);
  From& from(Peer peer);
  void be_held(Peer by, std::uint64_t window);
  void resume(Peer by);
  void take_back(Peer from);
  static void keep_message(AnnouncedSend* op);
  void advance(Peer peer);
  void announce(AnnouncedSend* op);
  void send(AnnouncedSend* op, AnnouncedSend::Stage stage, const Header& header);
  void send_pieces(AnnouncedSend* op, AnnouncedSend::Stage stage, const Header& header);
  void send_payload(AnnouncedSend* op, std::uint64_t token);
  AnnouncedSend* find(Peer peer, std::uint64_t id) const;
  void take(AnnouncedSend* op);
  Room complain(Peer to, std::uint64_t now, std::uint64_t waited_ns);
  void fetched(Peer from);
  void notify(Peer to, HoldCall call, std::uint64_t word, const std::uint64_t* token = nullptr);
  const std::string* look_further(Peer source);
  const std::string* extend(Peer peer);

  BackpressureOwner& owner_;
  transport::Endpoint* transport_ = nullptr;
  std::uint64_t limit_ = 0;
  std::uint64_t announced_from_ = ~std::uint64_t{0};
  std::uint64_t poll_interval_bytes_ = 0;
  // sender
  std::vector<To> to_;
  std::uint32_t held_ = 0;            ///< number of peers that hold this rank back
  std::vector<AnnouncedSend*> sent_;  ///< announced messages, by the lower half of the id
  std::vector<std::uint32_t> free_;
  std::uint64_t uses_ = 0;  ///< the upper half of the next id
  Copies copies_;
  std::uint64_t next_complaint_ns_ = 0;
  // receiver
  std::vector<From> from_;
  std::uint32_t holding_ = 0;  ///< peers that this rank holds back
  std::uint64_t holds_ = 0;    ///< all holds so far
  std::string too_much_;       ///< the last such message
};

}  // namespace penstock::messages
