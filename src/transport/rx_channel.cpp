#include "transport/rx_channel.hpp"

#include <utility>

#include "base/format.hpp"

namespace penstock::transport {
namespace {

constexpr unsigned max_messages_per_poll = 64;
/// A message that is deferred for less than this is no stall.
constexpr std::uint64_t held_ns = 1'000'000'000;

}  // namespace

Result<std::unique_ptr<RxChannel>> RxChannel::open(RxContext& context, std::uint64_t offset,
                                                   Peer source, EndpointStats& counts,
                                                   const AskIntraNode& intra_node) {
  const void* at = context.pool.at(offset, ChannelLayout::least_bytes);
  if (!at)
    return penstock::fail(ErrorCode::wrong_format,
                          "endpoint {} announces a channel at {}, outside the pool", source,
                          offset);
  ChannelHeader header;
  context.memory.observe_line(&header, at);  // pairs with TxRing::begin
  if (header.magic != channel_magic || header.checksum != checksum_of(header))
    return penstock::fail(ErrorCode::wrong_format,
                          "endpoint {} announces a channel at {}, but none is there", source,
                          offset);
  if (header.source != source || header.target != context.self.slot ||
      header.target_generation != context.self.generation || header.job != context.self.job)
    return penstock::fail(ErrorCode::mismatch,
                          "the channel at {} is not from endpoint {} to this one", offset, source);
  const std::optional<bool> is_intra_node =
      header.intra_node != 0 ? intra_node(header.source_generation) : true;
  if (!is_intra_node)
    return penstock::fail(ErrorCode::unavailable, "the node of endpoint {} is not known now",
                          source);
  if (!*is_intra_node)
    return penstock::fail(ErrorCode::mismatch,
                          "the channel at {} counts on one node's caches, but endpoint {} is on "
                          "another node",
                          offset, source);
  const bool shape_ok = header.ring_lines >= 8 && header.ring_lines <= (1u << 20) &&
                        (header.ring_lines & (header.ring_lines - 1)) == 0 &&
                        header.cell_flags % ChannelLayout::flags_a_line == 0 &&
                        header.cell_flags <= 4096;
  if (!shape_ok || offset < context.pool.info().arena_offset ||
      !context.pool.at(offset, ChannelLayout(header).bytes()))
    return penstock::fail(ErrorCode::wrong_format, "the channel at {} claims {} lines and {} cells",
                          offset, header.ring_lines, header.cell_flags);
  return std::unique_ptr<RxChannel>(new RxChannel(context, header, offset, counts));
}

bool RxChannel::current() const {
  ChannelHeader header;
  // also sees later writes of another node
  parts_.context.memory.observe_line(&header, parts_.base);
  return header.magic == channel_magic && header.nonce == parts_.ring.nonce();
}

// ---- polling -----------------------------------------------------------------------------------

bool RxChannel::advance(EndpointCallbacks& callbacks) {
  return parts_.transfer == nullptr ? poll_header(callbacks) : parts_.transfer->receive(parts_);
}

unsigned RxChannel::poll(EndpointCallbacks& callbacks) {
  RxRing& ring = parts_.ring;
  const std::uint64_t tail_before = ring.tail();
  unsigned messages = 0;
  while (!parts_.ended && messages < max_messages_per_poll && parts_.context.has_budget()) {
    if (!advance(callbacks)) break;
    ++messages;
  }
  if (ring.end_poll(tail_before) && ring.tail() - parts_.credits.lines > ring.lines() / 4)
    return_credits();
  return messages;
}

bool RxChannel::poll_header(EndpointCallbacks& callbacks) {
  if (!fault().empty()) return false;
  RxRing& ring = parts_.ring;
  // Beyond the window a look costs a device access and would delay the message just taken. With a
  // backlog the next message is probably there; the sequence tag exposes a stale copy.
  if (!ring.has_backlog() && !ring.is_fresh(ring.tail())) return false;
  // load the sequence tag first: it arrives last
  const std::uint64_t number = ring.nonce() + ring.tail();
  const std::uint64_t sequence_tag = ring.load_tag(ring.tail());
  if (!MessageLine::may_be(sequence_tag, number)) return false;
  MessageLine line;
  parts_.memory.load_line(&line, ring.next_line());
  if (sequence_tag != line.sequence_tag_of(number)) return false;
  if (ring.has_backlog()) ring.fetch(lines_ahead);
  parts_.message.read(line);
  if (line.form() == Form::withdrawn) return parts_.end_channel();
  const Transfer* const transfer = transfer_of(line.form());
  return transfer != nullptr ? transfer->arrive(parts_, callbacks, line) : parts_.broken_line(line);
}

void RxChannel::send_error(std::uint32_t code) {
  std::uint32_t& error = parts_.credits.error;
  error = ((error >> error_bits) + 1) << error_bits | code;
  return_credits();
}

void RxChannel::withdraw_clear_to_send() {
  parts_.clear_to_send.end();
  return_credits();
}

void RxChannel::fail(const Error& error) {
  if (parts_.fault.empty()) parts_.fault = error.message;
  parts_.clear_to_send.end();
  parts_.announced_messages = parts_.consumed_messages;  // nothing more will arrive
  if (awaits_header()) return;
  parts_.transfer = nullptr;
  parts_.report_failure(error);
}

// ---- damage ------------------------------------------------------------------------------------

RxChannel::Stall RxChannel::look_for_stall(std::uint64_t now_ns) {
  const RxRing& ring = parts_.ring;
  const RxCells& cells = parts_.cells;
  const Progress now{ring.tail(),       cells.next(),  parts_.message.got,
                     parts_.get.pieces, cells.ready(), parts_.transfer};
  const bool moved = std::exchange(looked_at_, now) != now;
  if (moved || parts_.deferral.is_shorter_than(held_ns, now_ns) || parts_.ended) return Stall::none;
  PositionLine position;
  // pairs with TxRing::publish_position
  parts_.memory.observe_line(&position, parts_.base + ChannelLayout::position);
  if (position.checksum != checksum_of(position)) return Stall::none;
  // compares counts relative to the nonce; an old position may be behind the received data
  const auto behind = [&ring](std::uint64_t is, std::uint64_t said_to_be) {
    return static_cast<std::int64_t>(said_to_be - ring.nonce() - is) > 0;
  };
  if (position.begun - ring.nonce() - ring.tail() > ring.lines())
    return Stall::none;  // or foreign data
  bool missing = behind(cells.next() + cells.ready(), position.cells);
  if (awaits_header())
    missing = missing || behind(ring.tail(), position.begun);
  else if (parts_.transfer->comes_at_once)
    missing = true;  // tail() counts a part of its lines
  else
    missing = missing || behind(ring.tail(), position.whole);
  if (missing) return Stall::missing;
  return position.waits == ring.nonce() + 1 ? Stall::credits : Stall::none;
}

void RxChannel::fail_missing() {
  (void)parts_.broken(
      fmt::format("endpoint {} has sent more than line {} and cell {}, where nothing arrives: "
                  "something else wrote to the pool",
                  source(), parts_.ring.tail(), parts_.cells.next()));
}

}  // namespace penstock::transport
