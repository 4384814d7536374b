// The sending end of a channel: what an endpoint asks of it. The forms of transfer do the work, on
// its parts.
#pragma once

#include <memory>

#include "transport/transfer.hpp"
#include "transport/tx_parts.hpp"

namespace penstock::transport {

class TxChannel {
 public:
  /// `mailbox`: words in the receiver's mailbox. `counts` of sent messages must outlive the
  /// channel. `intra_node`: the peer is on this node. Errors: no_space, invalid_argument (pool too
  /// large).
  static Result<std::unique_ptr<TxChannel>> make(TxContext& context, const Address& peer,
                                                 const MailboxWords& mailbox, EndpointStats& counts,
                                                 bool intra_node);

  /// False: no credit now, or other messages are queued; the position tells the receiver that this
  /// end waits. Errors: no_space.
  Result<bool> inject(const Header& header, const void* payload);
  /// True: complete; false: queued. Errors: no_space (the first pipelined message needs cells).
  Result<bool> send(SendOp* op);
  /// True if the op was queued and had not begun.
  bool cancel(SendOp* op) { return parts_.queue.cancel(op); }
  /// All queued ops that have not begun and that `wanted` accepts, in order. Null: none.
  SendOp* take_back(bool (*wanted)(const SendOp&)) { return parts_.queue.take_back(wanted); }
  /// Advances queued operations and reports those that complete. Returns the number of events.
  unsigned advance(EndpointCallbacks& callbacks);
  bool waiting() const { return parts_.waiting(); }
  /// Reports operations that the receiver has consumed. One device access if any operation waits
  /// for that.
  unsigned notify_delivered(EndpointCallbacks& callbacks);
  /// The code that RxChannel::send_error published since the last call. One device access.
  std::uint32_t take_error();
  /// Gives memory of an idle channel back. Call it periodically.
  void give_back_idle(std::uint64_t now_ns) { parts_.resizer.give_back_idle(parts_, now_ns); }
  /// Publishes the channel's position if it has changed. The caller does the store fence.
  void publish_position() { parts_.publish_position(); }
  /// True if nothing has moved since the last call and some data are not consumed: lines that the
  /// receiver reads may have been overwritten. One device access in that case.
  bool is_stuck();
  /// Publishes header, mailbox word and position again. `mailbox`: from the table, looked up anew.
  void repair(const MailboxWords& mailbox);
  /// True if the receiver has consumed everything that can still arrive. One device access.
  bool consumed() { return parts_.consumed(); }
  void fail_all(EndpointCallbacks& callbacks, const Error& error);
  /// Drops queued operations without a report: their buffers may be freed already. If a message was
  /// half sent, consumed() tells the receiver when there is room.
  void abandon();
  /// The last call, when the receiver has ended. `quiescent`: it closed in order, so none of its
  /// credits can still arrive.
  void give_memory_back(bool quiescent);

 private:
  TxChannel(TxContext& context, EndpointStats& counts, const coherence::Memory& memory,
            const TxRing& ring, const MailboxWords& mailbox)
      : parts_(context, counts, memory, ring, mailbox) {}
  Result<bool> inject_now(const Header& header, const void* payload);

  TxParts parts_;
};

}  // namespace penstock::transport
