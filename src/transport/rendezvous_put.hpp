// Rendezvous put: the receiver's buffer lies in the pool, and the sender stores cells of a
// pipelined message into it directly. The receiver clears the buffer to send part by part: it
// invalidates its copies of the lines, also those that its user has modified, before the sender
// stores there. It invalidates them again afterwards, since some may have been fetched meanwhile.
// Protocol: docs/protocols/channel.md.
#pragma once

#include "transport/layout.hpp"

namespace penstock::transport {

struct TxParts;
struct RxParts;

/// The clear-to-send of a pipelined message, as its sender knows it.
class ClearToSendSeen {
 public:
  /// Begins with the message whose first line has this number.
  void begin(std::uint64_t line) {
    end();
    line_ = line;
  }
  /// Forgets the clear-to-send of the last message.
  void end() { now_ = {}; }
  /// True if the message asks for one and waits for the answer.
  bool is_awaited() const { return requested_at_ns_ != 0; }
  /// Asks, or not, as the last message was answered.
  void ask(const TxParts& tx, const SendOp& op);
  void do_not_ask() { requested_at_ns_ = 0; }
  /// True while it may be extended or withdrawn.
  bool may_change() const { return is_awaited() || now_.until != 0; }
  /// Accepts what a credit line says if it is for this message; ignores a torn line. An empty one
  /// was withdrawn, because the receiver is closing.
  void accept(const ClearToSend& clear_to_send, std::uint64_t nonce, pool::Pool& pool);
  /// Destination of the next `bytes` of the message: the receive buffer as far as it is cleared to
  /// send, else a cell. Null: the message waits for a clear-to-send.
  std::byte* place_of_next(TxParts& tx, const SendOp& op, std::uint64_t bytes);

 private:
  static bool looks(const TxParts& tx, const SendOp& op);

  ClearToSend now_;  ///< for the message `line_`, as last read
  std::uint64_t line_ = 0;
  std::uint64_t requested_at_ns_ = 0;  ///< 0: the message does not wait for a clear-to-send
  bool expected_ = false;              ///< the previous message got one
};

/// The part of the message being received that is cleared to send.
class ClearToSendGrant {
 public:
  /// Begins a message. `asked`: the sender requested it. Without a request the sender is already
  /// writing its first cells.
  void begin(RxParts& rx, bool asked);
  /// Clears more of the buffer if the sender has come close to the end of what is cleared.
  void extend(RxParts& rx);
  /// Takes cells that the sender stored to the receive buffer. False: it stored elsewhere, and the
  /// channel is broken.
  bool take(RxParts& rx, std::uint32_t cells);
  /// The message has ended. It is not published before the next credits.
  void end() {
    now_ = {};
    end_ = 0;
  }
  /// True if the sender may still store to the user's buffer.
  bool is_open() const { return now_.until != 0; }
  /// As it is published, with the credits.
  ClearToSend line() const {
    ClearToSend line = now_;
    line.checksum = checksum_of(now_);
    return line;
  }

 private:
  bool may_extend(const RxParts& rx) const;

  ClearToSend now_;
  std::uint64_t end_ = 0;  ///< bytes that will be cleared to send in all
};

}  // namespace penstock::transport
