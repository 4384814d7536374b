#include "window/signals.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::window {

namespace {

bool reached(std::uint32_t count, std::uint32_t awaited) {
  return !later(awaited, count);
}

}  // namespace

Signals::Signals(const Context& context, Directory& directory)
    : context_(context), directory_(directory) {}

Result<void> Signals::prepare(std::span<const std::uint32_t> readers) {
  return directory_.prepare(readers);
}

void Signals::make(std::uint32_t rank) {
  if (peers_.empty()) peers_.resize(context_.ranks());
  peers_[rank] = std::make_unique<Peer>();
}

void Signals::send(std::uint32_t reader) {
  context_.memory.send_line(context_.at(directory_.to(reader) + signal_at), &peer(reader).sent);
}

void Signals::signal_open(std::span<const std::uint32_t> origins) {
  context_.memory.store_fence();  // stores to the segment precede the signal that opens it
  for (const std::uint32_t origin : origins) {
    ++peer(origin).sent.opens;
    send(origin);
  }
  context_.memory.store_fence();  // pairs with observe(): the signal leaves the store buffer
}

void Signals::signal_complete(std::span<const std::uint32_t> targets) {
  context_.memory.store_fence();  // puts precede the signal that completes them
  for (const std::uint32_t target : targets) {
    Peer& receiver = peer(target);
    if (!receiver.piggybacking) receiver.sent.piggyback_bytes = 0;
    receiver.piggybacking = false;
    ++receiver.sent.completes;
    send(target);
  }
  context_.memory.store_fence();  // pairs with observe()
}

void Signals::answer(std::uint32_t origin, std::uint32_t serial) {
  context_.memory.store_fence();  // stores to the ranges precede the answer
  peer(origin).sent.answer = serial;
  send(origin);
  context_.memory.store_fence();  // pairs with observe()
}

bool Signals::piggyback(std::uint32_t target, const Extent& piece, const void* from) {
  Peer& receiver = peer(target);
  if (receiver.piggybacking || piece.bytes > max_piggybacked) return false;
  receiver.piggybacking = true;
  SignalLine& line = receiver.sent;
  line.piggyback_at = piece.at;
  line.piggyback_bytes = static_cast<std::uint32_t>(piece.bytes);
  std::memcpy(line.piggybacked, from, piece.bytes);
  return true;
}

void Signals::await_open(std::span<const std::uint32_t> targets) {
  for (const std::uint32_t target : targets) ++peer(target).opens_awaited;
}

void Signals::await_complete(std::span<const std::uint32_t> origins) {
  for (const std::uint32_t origin : origins) ++peer(origin).completes_awaited;
}

/// The counts are in the last word, so the rest of the line is at least as new. A rank without
/// words towards this one has sent no signal.
void Signals::observe(const Missing& writers) {
  directory_.find(writers);
  const auto& memory = context_.memory;
  for (const std::uint32_t writer : writers) {
    const std::uint64_t words = directory_.from(writer);
    if (words != 0) memory.invalidate(context_.at(words + signal_at), line_bytes);
  }
  memory.load_fence();
  for (const std::uint32_t writer : writers) {
    const std::uint64_t words = directory_.from(writer);
    if (words != 0) memory.load_line(&peer(writer).seen, context_.at(words + signal_at));
  }
}

void Signals::remove_opened(Missing& missing) {
  observe(missing);
  std::erase_if(missing, [this](std::uint32_t target) {
    const Peer& other = peer(target);
    return reached(other.seen.opens, other.opens_awaited);
  });
}

void Signals::remove_completed(Missing& missing) {
  observe(missing);
  std::erase_if(missing, [this](std::uint32_t origin) {
    const Peer& other = peer(origin);
    return reached(other.seen.completes, other.completes_awaited);
  });
}

void Signals::remove_answered(Missing& missing, std::uint32_t serial) {
  observe(missing);
  std::erase_if(missing, [this, serial](std::uint32_t target) {
    return reached(peer(target).seen.answer, serial);
  });
}

std::optional<Piggyback> Signals::piggybacked(std::uint32_t origin, std::uint64_t segment_bytes) {
  const SignalLine& line = peer(origin).seen;
  Piggyback put{.at = line.piggyback_at, .bytes = line.piggyback_bytes, .data = {}};
  const bool sound = put.bytes <= max_piggybacked && put.bytes <= segment_bytes &&
                     put.at <= segment_bytes - put.bytes;
  if (put.bytes == 0 || !sound) return std::nullopt;
  std::memcpy(put.data, line.piggybacked, put.bytes);
  return put;
}

}  // namespace penstock::window
