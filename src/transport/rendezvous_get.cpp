// Rendezvous get: the sender's buffer lies in the pool, and the receiver copies directly from it.
// Protocol: docs/protocols/channel.md.
#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "device/pool_mappings.hpp"
#include "transport/iov.hpp"
#include "transport/rx_channel.hpp"
#include "transport/tx_channel.hpp"

namespace penstock::transport {

// ---- the sender ---------------------------------------------------------------------------------

std::optional<std::uint64_t> TxChannel::place_of(const SendOp& op) const {
  if (op.header.bytes < context_.settings.rendezvous_get_min_bytes || op.iov_count != 1)
    return std::nullopt;
  return context_.pool.mappings().attached_offset_of(op.iov[0].iov_base, op.header.bytes);
}

void TxChannel::write_get_line(const SendOp& op, std::uint64_t offset, std::uint64_t piece_bytes) {
  MessageLine line{};
  line.meta =
      MessageLine::pack(op.header.bytes, flag_acknowledge, Form::rendezvous_get, op.header.kind);
  line.tag = op.header.tag;
  line.data = op.header.data;
  line.rendezvous_get.offset = offset;
  line.rendezvous_get.piece_bytes = piece_bytes;
  line.sequence_tag = line.sequence_tag_of(nonce_ + head_);
  memory_.send_line(line_at(head_), &line);
}

/// Writes the user's stores back piece by piece, so that the receiver copies one piece while the
/// next is written back. A long message has larger pieces, because the ring has few lines.
TxChannel::Started TxChannel::start_get(SendOp* op, std::uint64_t offset) {
  const std::uint64_t bytes = op->header.bytes;
  const std::uint64_t least = context_.settings.get_piece_bytes;
  const std::uint64_t max_pieces = std::min(max_get_pieces, layout_.ring_lines() / 4);
  const std::uint64_t piece_bytes =
      least == 0 ? bytes
                 : std::max(least, base::align_up((bytes - 1) / max_pieces + 1, line_bytes));
  const std::uint64_t pieces = pieces_of(bytes, piece_bytes);
  if (!room(pieces)) return Started::no_credit;
  count(op->header);
  const std::byte* at = context_.pool.base() + offset;
  for (std::uint64_t done = 0; done < bytes; done += piece_bytes, ++head_) {
    memory_.write_back(at + done, std::min(piece_bytes, bytes - done));
    memory_.store_fence();  // the piece before its announcement
    if (done == 0) {
      write_get_line(*op, offset, piece_bytes);
      announce();
      continue;
    }
    MessageLine line{};
    line.sequence_tag = nonce_ + head_;
    memory_.send_line(line_at(head_), &line);
  }
  memory_.store_fence();
  op->sent_bytes = bytes;
  op->position = head_;
  op->get_lines = static_cast<std::uint32_t>(pieces);
  return Started::complete;
}

/// Changes the first line of each unfinished message, because the user may overwrite the payload
/// from now on. A receiver that has copied everything reads that line again
/// (RxChannel::still_in_place) and so notices.
void TxChannel::withdraw_get() {
  bool looked = false;
  for (const SendOp* op = delivering_.first; op; op = op->next) {
    if (op->get_lines == 0) continue;
    if (!looked) refresh_credits();
    looked = true;
    if (op->position <= consumed_) continue;
    const std::uint64_t number = op->position - op->get_lines;
    MessageLine line{};
    line.meta = MessageLine::pack(op->header.bytes, 0, Form::withdrawn, op->header.kind);
    line.sequence_tag = line.sequence_tag_of(nonce_ + number);
    memory_.send_line(line_at(number), &line);
  }
  if (looked) memory_.store_fence();
}

// ---- the receiver -------------------------------------------------------------------------------

bool RxChannel::check_get(const MessageLine& line) {
  const std::uint64_t piece_bytes = line.rendezvous_get.piece_bytes;
  get_ = header_.bytes == 0 ? nullptr
                            : static_cast<const std::byte*>(
                                  context_.pool.at(line.rendezvous_get.offset, header_.bytes));
  if (!get_ || piece_bytes == 0 ||
      pieces_of(header_.bytes, piece_bytes) > std::min(max_get_pieces, layout_.ring_lines()))
    return broken(fmt::format("endpoint {} claims {} bytes in pieces of {} at {}", source_,
                              header_.bytes, piece_bytes, line.rendezvous_get.offset));
  return true;
}

bool RxChannel::begin_get(const MessageLine& line) {
  get_line_ = line;
  pieces_ = 1;
  stage_ = Stage::rendezvous_get;
  return continue_get();
}

/// Bytes of the message that the sender has announced as written back to the device.
std::uint64_t RxChannel::get_ready() {
  const std::uint64_t piece_bytes = get_line_.rendezvous_get.piece_bytes;
  const std::uint64_t pieces = pieces_of(header_.bytes, piece_bytes);
  while (pieces_ < pieces) {
    const std::uint64_t number = tail_ + pieces_;
    if (number >= fresh_until_ && memory_.loads_may_be_stale()) break;
    // pairs with the store fence in TxChannel::start_get
    if (memory_.load_word(line_at(number) + offsetof(MessageLine, sequence_tag)) != nonce_ + number)
      break;
    ++pieces_;
  }
  return pieces_ == pieces ? header_.bytes : pieces_ * piece_bytes;
}

/// True if the copy is valid: the sender's user overwrites the payload only after the line says
/// that the message was withdrawn.
bool RxChannel::still_in_place() const {
  MessageLine now;
  // Does a load fence in every mode: the payload was loaded before. Pairs with
  // TxChannel::withdraw_get.
  memory_.observe_line(&now, line_at(tail_));
  return std::memcmp(&now, &get_line_, sizeof now) == 0;
}

/// Copies one batch. True if it copied anything.
bool RxChannel::continue_get() {
  const std::uint64_t ready = get_ready();
  const std::uint64_t bytes = std::min<std::uint64_t>(ready - got_, context_.settings.batch_bytes);
  if (bytes != 0) {
    memory_.invalidate(get_ + got_, bytes);
    memory_.load_fence();  // in every mode: the line is loaded before the payload
    deliver(get_ + got_, bytes);
  } else if (got_ < header_.bytes) {
    return count_retry();
  }
  if (got_ < header_.bytes) return true;
  if (!still_in_place()) return end_channel();
  tail_ += pieces_;
  finish();
  return true;
}

}  // namespace penstock::transport
