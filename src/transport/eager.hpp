// Eager lines: short messages inside the ring. A message of up to 32 bytes takes one line
// (inlined); a longer one continues in the tagged lines after it. Protocol:
// docs/protocols/channel.md.
#pragma once

#include "transport/transfer.hpp"

namespace penstock::transport::inlined {

/// Sends a message without a SendOp. There is room for it. `flags`: of the first line.
void put(TxParts& tx, const Header& header, const void* payload, std::uint8_t flags);
bool takes(TxParts& tx, SendOp& op);
Started start(TxParts& tx, SendOp& op);
bool arrive(RxParts& rx, EndpointCallbacks& callbacks, const MessageLine& line);

}  // namespace penstock::transport::inlined

namespace penstock::transport::eager {

/// Lines reach the receiver sooner; cells cost both sides less time.
bool fits(TxParts& tx, std::uint64_t bytes);
/// Sends a message without a SendOp. There is room for it. `flags`: of the first line.
void put(TxParts& tx, const Header& header, const std::byte* payload, std::uint8_t flags);
bool takes(TxParts& tx, SendOp& op);
Started start(TxParts& tx, SendOp& op);
bool arrive(RxParts& rx, EndpointCallbacks& callbacks, const MessageLine& line);
bool receive(RxParts& rx);

}  // namespace penstock::transport::eager
