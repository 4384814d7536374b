// Rendezvous get: the sender's buffer lies in the pool, and the receiver copies directly from it.
// Protocol: docs/protocols/channel.md.
#pragma once

#include "transport/transfer.hpp"

namespace penstock::transport::rendezvous_get {

bool takes(TxParts& tx, SendOp& op);
Started start(TxParts& tx, SendOp& op);
/// Changes the first line of each unfinished message, because the user may overwrite the payload
/// from now on.
void withdraw(TxParts& tx);
bool arrive(RxParts& rx, EndpointCallbacks& callbacks, const MessageLine& line);
bool receive(RxParts& rx);
void prepare(RxParts& rx);

}  // namespace penstock::transport::rendezvous_get
