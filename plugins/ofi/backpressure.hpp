// How a flood of messages ends in waiting and not in memory. A receiver that keeps more unexpected
// messages than PENSTOCK_UNEXPECTED_BYTES tells their senders to announce: what they send next
// stays with them, in the user's buffer, and only an announcement of it, a line, goes to the
// receiver. That one is matched like any message; when a receive has been found, the payload is
// asked for. So a send whose buffer is the user's ends when it is received.
//
// Announcements are bounded too: a sender has a number of them at a time, and the rest waits with
// it. It gets a larger number when a receive is posted, or a probe made, that only a message behind
// those could answer. What a user has sent by copy (fi_inject) is copied by the sender, up to the
// same bound; then the call says FI_EAGAIN. Why no program waits for ever: docs/decisions/0032.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "match.hpp"
#include "rma_wire.hpp"

namespace penstock::ofi {

struct Ep;

/// Announced messages that a sender may have at first, before any is fetched.
inline constexpr std::uint64_t first_window = 64;

/// A send that may have to be announced.
struct AnnouncedSend : transport::SendOp {
  enum class Stage : std::uint8_t {
    plain,       ///< goes as it is
    waiting,     ///< to be announced
    announcing,  ///< its announcement is on its way
    announced,
    payload  ///< fetched, or let go
  };
  AnnouncedSend* prev = nullptr;
  AnnouncedSend* next = nullptr;
  Peer peer = any_peer;
  Stage stage = Stage::plain;
  bool delivered = false;   ///< SendOp::notify_delivered of the message
  std::uint64_t token = 0;  ///< of a fetch that came while it was being announced
  Announcement announcement;
  // the message, while SendOp is its announcement
  Header message;
  iovec pieces[transport::max_iov];
  std::uint32_t piece_count;

  const Header& message_header() const { return stage == Stage::plain ? header : message; }
};

class Backpressure {
 public:
  explicit Backpressure(Ep& ep) : ep_(ep) {}
  Backpressure(const Backpressure&) = delete;
  Backpressure& operator=(const Backpressure&) = delete;

  /// Reads PENSTOCK_UNEXPECTED_BYTES. Errors: invalid_argument.
  Result<void> set_up();

  // ---- sender ----
  /// True if a message to this peer has to be announced.
  bool concerns(Peer to, const Header& header) const {
    return (held_ != 0 || header.bytes > announced_from_) && must_announce(to, header);
  }
  /// Bytes after which a program that only sends looks what its receivers say.
  std::uint64_t hears_every() const { return hears_every_; }
  /// Takes a message over that concerns() is true of. Its end is told to Ep.
  void add(AnnouncedSend* op);
  /// 0 if so many bytes more may be copied for sends to `to`. -FI_EAGAIN: the caller comes again
  /// later. -FI_ENOBUFS: that has been in vain for PENSTOCK_TIMEOUT_MS, and others wait for this
  /// rank.
  int may_copy(Peer to, std::uint64_t bytes);
  void copied(std::uint64_t bytes) { copied_ += bytes; }
  void copy_ended(std::uint64_t bytes) { copied_ -= bytes; }
  std::uint64_t copied() const { return copied_; }
  /// Sends all copies now, fetched or not: the endpoint closes.
  void let_copies_go();
  /// Outcome of an announcement, in the transport.
  void sent(AnnouncedSend* op);
  void unsent(AnnouncedSend* op);
  void call(Peer from, const Header& header, const void* payload);

  // ---- receiver ----
  void too_many(Peer from);
  void room();
  void announced(Peer from, bool awaited);
  void tell(Peer to, HoldCall call, std::uint64_t word, std::uint64_t token = 0);
  void fetched(Peer from);
  /// A receive was posted, or a probe made, that did not find its message. Returns 0, or the number
  /// of a text that says why it will not: then receives that wait for `source` have failed.
  int wanted(Peer source) { return holding_ == 0 ? 0 : look_further(source); }

  /// The peer has died or left.
  void gone(Peer peer, int error, int detail);
  /// Logs what there was, at level info.
  void print() const;

 private:
  struct To {
    bool held = false;
    std::uint64_t window = 0, outstanding = 0;
    List<AnnouncedSend> waiting;
  };
  struct From {
    bool held = false;
    std::uint64_t window = 0;
    std::uint64_t announced = 0;  ///< and not fetched
    bool told = false;            ///< that there are too many
  };

  bool must_announce(Peer to, const Header& header) const;
  To& to(Peer peer);
  From& from(Peer peer);
  void be_held(Peer by, std::uint64_t window);
  void be_let_go(Peer by);
  void advance(Peer peer);
  void announce(AnnouncedSend* op);
  void send(AnnouncedSend* op, AnnouncedSend::Stage stage, const Header& header);
  void send_payload(AnnouncedSend* op, std::uint64_t token);
  void send_plain(AnnouncedSend* op);
  AnnouncedSend* find(Peer peer, std::uint64_t id) const;
  void take(AnnouncedSend* op);
  int complain(Peer to, std::uint64_t now);
  int look_further(Peer source);
  int extend(Peer peer);

  Ep& ep_;
  std::uint64_t limit_ = 0;
  std::uint64_t announced_from_ = ~std::uint64_t{0};
  std::uint64_t hears_every_ = 0;
  // sender
  std::vector<To> to_;
  std::uint32_t held_ = 0;            ///< peers that hold us
  std::vector<AnnouncedSend*> sent_;  ///< announced ones, by the lower half of the id
  std::vector<std::uint32_t> free_;
  std::uint64_t uses_ = 0;     ///< the upper half of the next id
  std::uint64_t copied_ = 0;   ///< bytes of copies that have not left
  std::uint64_t allowed_ = 0;  ///< of them, at the moment
  std::uint64_t fetches_ = 0, fetches_then_ = 0;
  std::uint64_t stuck_at_ = 0;  ///< `copied_` then
  std::uint64_t stuck_since_ns_ = 0, next_complaint_ns_ = 0;
  // receiver
  std::vector<From> from_;
  std::uint32_t holding_ = 0;  ///< peers that we hold
  std::uint64_t holds_ = 0;    ///< in all
};

}  // namespace penstock::ofi
