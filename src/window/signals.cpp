#include "window/signals.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::window {

namespace {

bool reached(std::uint32_t count, std::uint32_t awaited) {
  return !later(awaited, count);
}

}  // namespace

Signals::Signals(const Context& context)
    : context_(context),
      sent_(context.ranks()),
      seen_(context.ranks()),
      opens_awaited_(context.ranks()),
      completes_awaited_(context.ranks()),
      piggybacking_(context.ranks()) {}

void Signals::send(std::uint32_t reader) {
  context_.memory.send_line(line(reader, context_.self()), &sent_[reader]);
}

void Signals::tell_open(std::span<const std::uint32_t> origins) {
  context_.memory.store_fence();  // stores to the segment precede the signal that opens it
  for (const std::uint32_t origin : origins) {
    ++sent_[origin].opens;
    send(origin);
  }
  context_.memory.store_fence();  // pairs with observe: the signal leaves the store buffer
}

void Signals::tell_complete(std::span<const std::uint32_t> targets) {
  context_.memory.store_fence();  // puts precede the signal that completes them
  for (const std::uint32_t target : targets) {
    if (!piggybacking_[target]) sent_[target].piggyback_bytes = 0;
    piggybacking_[target] = false;
    ++sent_[target].completes;
    send(target);
  }
  context_.memory.store_fence();  // pairs with observe
}

void Signals::answer(std::uint32_t origin, std::uint32_t serial) {
  context_.memory.store_fence();  // stores to the ranges precede the answer
  sent_[origin].answer = serial;
  send(origin);
  context_.memory.store_fence();  // pairs with observe
}

bool Signals::piggyback(std::uint32_t target, const Extent& piece, const void* from) {
  if (piggybacking_[target] || piece.bytes > max_piggybacked) return false;
  piggybacking_[target] = true;
  SignalLine& line = sent_[target];
  line.piggyback_at = piece.at;
  line.piggyback_bytes = static_cast<std::uint32_t>(piece.bytes);
  std::memcpy(line.piggybacked, from, piece.bytes);
  return true;
}

void Signals::await_open(std::span<const std::uint32_t> targets) {
  for (const std::uint32_t target : targets) ++opens_awaited_[target];
}

void Signals::await_complete(std::span<const std::uint32_t> origins) {
  for (const std::uint32_t origin : origins) ++completes_awaited_[origin];
}

/// The counts are in the last word: the rest of the line is at least as new.
void Signals::observe(const Missing& writers) {
  const auto& memory = context_.memory;
  for (const std::uint32_t writer : writers)
    memory.invalidate(line(context_.self(), writer), line_bytes);
  memory.load_fence();
  for (const std::uint32_t writer : writers)
    memory.load_line(&seen_[writer], line(context_.self(), writer));
}

void Signals::drop_those_open(Missing& missing) {
  observe(missing);
  std::erase_if(missing, [this](std::uint32_t target) {
    return reached(seen_[target].opens, opens_awaited_[target]);
  });
}

void Signals::drop_those_complete(Missing& missing) {
  observe(missing);
  std::erase_if(missing, [this](std::uint32_t origin) {
    return reached(seen_[origin].completes, completes_awaited_[origin]);
  });
}

void Signals::drop_those_who_answered(Missing& missing, std::uint32_t serial) {
  observe(missing);
  std::erase_if(missing, [this, serial](std::uint32_t target) {
    return reached(seen_[target].answer, serial);
  });
}

std::optional<Piggyback> Signals::piggybacked(std::uint32_t origin,
                                              std::uint64_t segment_bytes) const {
  const SignalLine& line = seen_[origin];
  Piggyback put{.at = line.piggyback_at, .bytes = line.piggyback_bytes, .data = {}};
  const bool sound = put.bytes <= max_piggybacked && put.bytes <= segment_bytes &&
                     put.at <= segment_bytes - put.bytes;
  if (put.bytes == 0 || !sound) return std::nullopt;
  std::memcpy(put.data, line.piggybacked, put.bytes);
  return put;
}

}  // namespace penstock::window
