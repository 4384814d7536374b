#include "transport/transfer.hpp"

#include <array>

#include "transport/eager.hpp"
#include "transport/pipelined.hpp"
#include "transport/rendezvous_get.hpp"

namespace penstock::transport {
namespace {

/// In the order in which a sender asks them. Rendezvous put is no row: such a message is pipelined,
/// and its receiver says where its cells lie.
constexpr std::array transfers{
    Transfer{.form = Form::inlined,
             .takes = inlined::takes,
             .start = inlined::start,
             .advance = nullptr,
             .arrive = inlined::arrive,
             .receive = nullptr,
             .prepare = nullptr,
             .comes_at_once = true},
    Transfer{.form = Form::rendezvous_get,
             .takes = rendezvous_get::takes,
             .start = rendezvous_get::start,
             .advance = nullptr,
             .arrive = rendezvous_get::arrive,
             .receive = rendezvous_get::receive,
             .prepare = rendezvous_get::prepare,
             .comes_at_once = false},
    Transfer{.form = Form::eager,
             .takes = eager::takes,
             .start = eager::start,
             .advance = nullptr,
             .arrive = eager::arrive,
             .receive = eager::receive,
             .prepare = nullptr,
             .comes_at_once = true},
    Transfer{.form = Form::pipelined,
             .takes = pipelined::takes,
             .start = pipelined::start,
             .advance = pipelined::advance,
             .arrive = pipelined::arrive,
             .receive = pipelined::receive,
             .prepare = pipelined::prepare,
             .comes_at_once = false},
};

}  // namespace

const Transfer* transfer_of(Form form) {
  for (const Transfer& transfer : transfers)
    if (transfer.form == form) return &transfer;
  return nullptr;
}

Started start_transfer(TxParts& tx, SendOp& op) {
  for (const Transfer& transfer : transfers) {
    if (!transfer.takes(tx, op)) continue;
    op.form = static_cast<std::uint8_t>(transfer.form);
    return transfer.start(tx, op);
  }
  return Started::no_credit;  // the last row takes everything
}

void advance_transfer(TxParts& tx, SendOp& op) {
  transfer_of(static_cast<Form>(op.form))->advance(tx, op);
}

}  // namespace penstock::transport
