// The messages by which a receiver holds its senders back (backpressure.hpp). They travel in order
// with the other messages of the pair, but for the calls, which overtake what is queued.
//
//              tag            data       payload
//   announced  the message's  as there   Announcement
//   hold       id or number   HoldCall   fetch: the receiver's token (8 bytes)
//   payload    token or 0     id         of a message that was announced
#pragma once

#include <cstdint>

#include "transport/transport.hpp"

namespace penstock::backpressure {

using transport::Header;
using transport::Peer;

/// Bits of Header::kind: a message that may be announced has the first of these and none of the
/// others.
inline constexpr std::uint8_t kind_tagged = 1;
/// The user's, and nothing here.
inline constexpr std::uint8_t kind_of_user = 2;
/// None of the user's messages; the service is in the bits above.
inline constexpr std::uint8_t kind_service = 4;
/// The message itself is still at its sender: here is an Announcement of it.
inline constexpr std::uint8_t kind_announced = 8;
inline constexpr std::uint8_t kind_hold = kind_service | 6 << 3;
inline constexpr std::uint8_t kind_payload = kind_service | 7 << 3;

/// What a receiver tells a sender of messages.
enum class HoldCall : std::uint64_t {
  announce,  ///< from now on announce messages, so many at most that were not fetched
  go_on,     ///< no longer
  fetch,     ///< a receive waits for the message that was announced under this id
  forget,    ///< none will
};

struct Announcement {
  std::uint64_t id;     ///< the sender's
  std::uint64_t bytes;  ///< of the message
};

}  // namespace penstock::backpressure
