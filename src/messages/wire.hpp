// The messages by which a receiver holds its senders back (backpressure.hpp). They travel in order
// with the other messages of the pair, except the calls, which overtake queued messages.
//
//              tag            data            payload
//   announced  the message's  the message's   Announcement
//   hold       id or number   HoldCall        fetch: the receiver's token (8 bytes)
//   payload    token or 0     id              of a message that was announced
#pragma once

#include <cstdint>

#include "transport/transport.hpp"

namespace penstock::messages {

using transport::Header;
using transport::Peer;

/// Bits of Header::kind. A message that may be announced has the first of these and none of the
/// others.
inline constexpr std::uint8_t kind_tagged = 1;
/// A bit that the user defines; unused here.
inline constexpr std::uint8_t kind_of_user = 2;
/// Not a message of the user; the bits above say which service it belongs to.
inline constexpr std::uint8_t kind_service = 4;
/// The payload is still at its sender: this is an Announcement of the message.
inline constexpr std::uint8_t kind_announced = 8;
inline constexpr std::uint8_t kind_hold = kind_service | 6 << 3;
inline constexpr std::uint8_t kind_payload = kind_service | 7 << 3;

/// The calls from a receiver to a sender of messages.
enum class HoldCall : std::uint64_t {
  announce,  ///< from now on announce messages, with at most a given number not fetched
  go_on,     ///< stop announcing
  fetch,     ///< a receive waits for the message that was announced under this id
  forget,    ///< no receive will ever wait for that message
};

struct Announcement {
  std::uint64_t id;     ///< the sender's id of the message
  std::uint64_t bytes;  ///< of the message
};

}  // namespace penstock::messages
