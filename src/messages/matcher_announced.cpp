// Announced messages. They are matched like others, but their payload arrives only when a receive
// has matched, or when the sender cannot wait for that.
#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "messages/matcher.hpp"
#include "transport/iov.hpp"
#include "transport/layout.hpp"

namespace penstock::messages {

void Matcher::announced(const Message& message) {
  Announcement announcement;
  const bool tagged = (message.header.kind & kind_tagged) != 0;
  if (message.header.bytes != sizeof announcement || !tagged) return;
  std::memcpy(&announcement, message.payload, sizeof announcement);
  if (announcement.bytes > transport::max_message_bytes) return;
  Header header = message.header;
  header.kind = static_cast<std::uint8_t>(header.kind & ~kind_announced);
  header.bytes = announcement.bytes;
  const std::uint32_t source = source_of(message.from, header);
  Lane& lane = lane_of(true);
  Receive* const receive = lane.posted.find(source, header.tag);
  events_.on_announced(message.from, receive != nullptr);
  Incoming* const incoming = keep(message.from, source, header);
  if (incoming == nullptr) {
    events_.forget(message.from, announcement.id);
    return report_no_memory(message.from, header);
  }
  incoming->announced = true;
  incoming->id = announcement.id;
  ++unexpected_.announced;
  if (receive != nullptr) {
    if (receive->multi) incoming->part = reserve(receive, header.bytes);
    if (!receive->multi || receive->retired) lane.posted.remove(receive);
    return fetch(receive, incoming);
  }
  unexpected_.peak_announced = std::max(unexpected_.peak_announced, unexpected_.announced);
  lane.unexpected.push_back(incoming);
}

/// Requests the payload of a message that matched `receive`. The message is on no list.
void Matcher::fetch(Receive* receive, Incoming* incoming) {
  --unexpected_.announced;
  incoming->receive = receive;
  incoming->announced = false;
  incoming->direct = incoming->arriving = true;
  events_.fetch(incoming->from, incoming->id, fetched_.add(incoming));
}

/// Finds an announced message by the token of its fetch. Without a token (0), the message may be
/// fetched or may still wait for a receive.
Matcher::Incoming* Matcher::find_announced(Peer from, std::uint64_t token, std::uint64_t id) {
  if (Incoming* const fetched = fetched_.take(from, id, token)) return fetched;
  if (token != 0) return nullptr;
  for (Incoming* one : {lane_of(true).unexpected.head(), claimed_.head()})
    for (; one != nullptr; one = one->next)
      if (one->announced && one->from == from && one->id == id) return one;
  return nullptr;
}

ReceiveBuffer Matcher::payload(const Message& message) {
  const Header& header = message.header;
  Incoming* const incoming = find_announced(message.from, header.tag, header.data);
  if (incoming == nullptr) return {};  // no longer wanted
  if (incoming->header.bytes != header.bytes) {
    base::log(base::Level::error, "a peer has announced {} bytes and sends {}",
              incoming->header.bytes, header.bytes);
    incoming->header.bytes = std::min(incoming->header.bytes, header.bytes);
  }
  if (incoming->receive == nullptr) {  // keep it until a receive matches
    incoming->announced = false;
    --unexpected_.announced;
    incoming->arriving = true;
    if (!make_payload(incoming)) {
      report_no_memory(incoming->from, incoming->header);
      failed(incoming, {ErrorCode::no_space, "no memory for a message"});
      return {};
    }
    count_kept(incoming);
    incoming->receive_buffer = {incoming->payload(), incoming->header.bytes};
  }
  const Receive* const receive = incoming->receive;
  const iovec* const iov = receive == nullptr ? &incoming->receive_buffer
                           : receive->multi   ? &incoming->part
                                              : receive->iov;
  const std::uint32_t count = receive != nullptr ? receive->iov_count : 1;
  if (message.payload != nullptr || header.bytes == 0) {
    transport::iov_scatter(iov, count, 0, static_cast<const std::byte*>(message.payload),
                           incoming->header.bytes);
    arrived(incoming);
    return {};
  }
  return {.iov = iov,
          .iov_count = count,
          .arrival = incoming,
          .invalidated = receive != nullptr ? receive->invalidated.of_this_thread() : 0};
}

bool Matcher::awaits(Peer peer) const {
  const std::uint32_t source = source_of(peer);
  const Receive* receive = lanes_[1].posted.head();
  while (receive != nullptr && receive->source != any_source && receive->source != source)
    receive = receive->next;
  return receive != nullptr;
}

void Matcher::fail_awaiting(Peer peer, int error, int detail) {
  Lane& lane = lane_of(true);
  const std::uint32_t source = source_of(peer);
  for (Receive* receive = lane.posted.head(); receive != nullptr;) {
    Receive* const next = receive->next;
    if (receive->source == any_source || receive->source == source)
      end_waiting(lane, receive, peer, error, detail);
    receive = next;
  }
}

/// Drops the messages that a dead peer announced, and fails the receives that fetch them.
void Matcher::forget_announced(const Dead& dead) {
  fetched_.take_all_of(dead.peer, [&](Incoming* incoming) {
    Receive* const receive = incoming->receive;
    const Header header = incoming->header;
    release(incoming);
    fail(receive, dead.peer, header, dead.error, dead.detail);
  });
  const auto purge = [&](auto& list) {
    for (Incoming* one = list.head(); one != nullptr;) {
      Incoming* const next = one->next;
      if (one->announced && one->from == dead.peer) {
        list.remove(one);
        --unexpected_.announced;
        if (dead.lives) events_.forget(one->from, one->id);
        release(one);
      }
      one = next;
    }
  };
  purge(lane_of(true).unexpected);
  purge(claimed_);
}

}  // namespace penstock::messages
