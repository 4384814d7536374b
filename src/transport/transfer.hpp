// The forms of transfer: a table with a row for each, which says what the two ends of a channel do.
// Protocol: docs/protocols/channel.md.
#pragma once

#include <cstdint>

#include "transport/layout.hpp"

namespace penstock::transport {

struct TxParts;
struct RxParts;

/// The outcome of a sender's attempt to begin a message.
enum class Started : std::uint8_t { complete, partly, no_credit, no_memory };

struct Transfer {
  Form form;

  // The sender.
  /// True if messages like this one go in this form. The first row that says so counts.
  bool (*takes)(TxParts&, SendOp&);
  Started (*start)(TxParts&, SendOp&);
  /// Sends more of a message that has begun. Null: `start` sends all of it.
  void (*advance)(TxParts&, SendOp&);

  // The receiver. Its functions return true if something moved.
  /// Takes a message's first line: checks it, asks for a buffer and begins.
  bool (*arrive)(RxParts&, EndpointCallbacks&, const MessageLine&);
  /// Receives more of a message that has begun. Null: `arrive` takes all of it.
  bool (*receive)(RxParts&);
  /// Invalidates the lines that the next `receive` loads. Null: the ring's next lines.
  void (*prepare)(RxParts&);
  /// The sender publishes all lines of a message together: a part of them means that others are
  /// missing.
  bool comes_at_once;
};

/// Null: no message has this form.
const Transfer* transfer_of(Form form);
/// Begins a message in the first form that takes it.
Started start_transfer(TxParts& tx, SendOp& op);
/// Sends more of a message that has begun.
void advance_transfer(TxParts& tx, SendOp& op);

}  // namespace penstock::transport
