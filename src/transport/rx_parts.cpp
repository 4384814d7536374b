#include "transport/rx_parts.hpp"

#include "base/clock.hpp"
#include "base/format.hpp"
#include "device/pool_mappings.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint64_t look_every_ns = 100'000'000;

coherence::Memory memory_of(const RxContext& context, const ChannelHeader& header) {
  return header.intra_node != 0 ? context.memory.intra_node() : context.memory;
}

}  // namespace

RxParts::RxParts(RxContext& context_in, const ChannelHeader& header, std::uint64_t offset,
                 EndpointStats& counts_in)
    : context(context_in),
      counts(counts_in),
      memory(memory_of(context_in, header)),
      base(context_in.pool.base() + offset),
      origin(header, offset),
      ring(memory, base, header),
      cells(memory, base, header),
      consumed_messages(static_cast<std::uint32_t>(header.nonce)),
      announced_messages(consumed_messages) {}

bool RxParts::ask_for_buffer(EndpointCallbacks& callbacks, bool deferrable) {
  const std::uint64_t bytes = message.header.bytes, until_ns = context.no_deferral_until_ns;
  const bool may_wait = deferrable && deferral.may_wait(bytes, until_ns);
  const bool for_room = deferrable && deferral.may_wait_for_room(bytes, until_ns);
  const ReceiveBuffer buffer = callbacks.on_message({.from = origin.source,
                                                     .header = message.header,
                                                     .payload = nullptr,
                                                     .may_wait = may_wait,
                                                     .may_wait_for_room = for_room});
  if ((may_wait && buffer.match == Match::later) || (for_room && buffer.match == Match::no_room)) {
    deferral.begin();
    context.deferred = true;
    return false;
  }
  deferral.end();
  if (deferrable) deferral.note(bytes, buffer.match == Match::posted);
  message.set_buffer(buffer);
  return true;
}

void RxParts::deliver(const std::byte* from, std::uint64_t bytes) {
  message.load(memory, from, bytes);
  context.took(bytes);
}

bool RxParts::count_retry() {
  ++counts.retries;
  return false;
}

bool RxParts::broken(std::string text) {
  fault = std::move(text);
  return false;
}

bool RxParts::broken_line(const MessageLine& line) {
  return broken(fmt::format("message line {:#x} from endpoint {}", line.meta, origin.source));
}

void RxParts::finish() {
  transfer = nullptr;
  count(message.header.bytes);
  if (message.acknowledge) return_credits();
  Arrival* const owner = message.take_owner();
  if (owner != nullptr && context.reports) owner->arrived();
}

void RxParts::report_failure(const Error& error) {
  Arrival* const owner = message.take_owner();
  if (owner != nullptr && context.reports) owner->failed(error);
}

/// Neither that message nor later ones will be delivered. A closing sender waits for this line, the
/// last store to its channel.
bool RxParts::end_channel() {
  const bool begun = transfer != nullptr;
  transfer = nullptr;
  clear_to_send.end();
  CreditLine line{};
  line.lines = broken_off(ring.nonce());
  // pairs with TxParts::refresh_credits
  memory.publish_line(base + ChannelLayout::credits, &line);
  memory.store_fence();
  ended = true;
  if (begun) report_failure({ErrorCode::peer_dead, "the sender closed in the midst of it"});
  return false;
}

void RxParts::return_credits() {
  publish_credits();
  memory.store_fence();
}

void RxParts::publish_credits() {
  if (ended) return;
  CreditLine line{};
  line.lines = ring.nonce() + ring.tail();
  line.cells = ring.nonce() + cells.next();
  line.clear_to_send = clear_to_send.line();
  line.error = credits.error == 0 ? 0 : ring.nonce() + credits.error;
  // pairs with TxParts::refresh_credits
  memory.publish_line(base + ChannelLayout::credits, &line);
  credits.lines = ring.tail();
  credits.cells = cells.next();
}

std::optional<std::uint64_t> RxContext::place_of(const std::byte* receive_buffer,
                                                 std::uint64_t bytes) {
  auto& mappings = pool.mappings();
  if (const auto offset = mappings.attached_offset_of(receive_buffer, bytes)) return offset;
  const std::uint64_t now = base::now_ns();
  if (now < next_look_ns) return std::nullopt;
  next_look_ns = now + look_every_ns;
  mappings.follow_attachments();
  return mappings.attached_offset_of(receive_buffer, bytes);
}

}  // namespace penstock::transport
