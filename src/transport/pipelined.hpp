// Pipelined cells: longer messages, copied through cells that are used in turn. Each cell has a
// flag that says it is full. Protocol: docs/protocols/channel.md.
#pragma once

#include "transport/transfer.hpp"

namespace penstock::transport::pipelined {

/// True: the form for all messages that no other one takes.
bool takes(TxParts& tx, SendOp& op);
Started start(TxParts& tx, SendOp& op);
void advance(TxParts& tx, SendOp& op);
bool arrive(RxParts& rx, EndpointCallbacks& callbacks, const MessageLine& line);
bool receive(RxParts& rx);
void prepare(RxParts& rx);

}  // namespace penstock::transport::pipelined
