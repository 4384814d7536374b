#include "window/exposure.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pool/checksummed_line.hpp"

namespace penstock::window {

Exposure::Exposure(Context& context, Signals& signals) : context_(context), signals_(signals) {
  const Member& own = context.own();
  may_be_asked_ = false;
  if (!context.any_apart()) return;
  if (context.options.stored_by_all) {
    for (const Member& member : context.options.members) {
      if (member.bytes != 0) reached_.push_back({member.offset, member.offset + member.bytes});
    }
  } else if (own.bytes > whole_segment_bytes) {
    may_be_asked_ = true;
    wants_.resize(context.ranks());
    served_.resize(context.ranks());
  } else if (own.bytes != 0) {
    reached_.push_back({own.offset, own.offset + own.bytes});
  }
  reached_by_lock_ = reached_;
}

void Exposure::send() {
  send(reached_);
}

void Exposure::drop() {
  drop(reached_);
  if (!given_back_) return;
  given_back_ = false;  // all that was put there before it was given back is found from now on
  reached_ = united(false);
  reached_by_lock_ = united(true);
}

void Exposure::send_reached_by_lock() {
  if (reached_by_lock_.empty()) return;
  send(reached_by_lock_);
  context_.memory.full_fence();  // the others may learn of it by means outside the pool
}

void Exposure::drop_reached_by_lock() {
  if (!reached_by_lock_.empty()) drop(reached_by_lock_);
}

void Exposure::send(const std::vector<Range>& ranges) {
  for (const Range& range : ranges)
    context_.memory.write_back(context_.pool.base() + range.first, range.bytes());
}

void Exposure::drop(const std::vector<Range>& ranges) {
  for (const Range& range : ranges)
    context_.memory.invalidate(context_.pool.base() + range.first, range.bytes());
  context_.memory.load_fence();
}

void Exposure::store(const Piggyback& put) {
  std::byte* const to = context_.segment(context_.self()) + put.at;
  std::memcpy(to, put.data, put.bytes);
  context_.memory.write_back(to, put.bytes);
}

void Exposure::drop_all() {
  const Member& own = context_.own();
  if (own.bytes != 0) context_.memory.invalidate(context_.segment(context_.self()), own.bytes);
  drop();  // in a shared window the others' segments too
}

/// Reads and checks the want of `origin`; false if there is no new one. A torn line is still being
/// published, and its ring follows.
bool Exposure::take(std::uint32_t origin) {
  const std::uint64_t place =
      context_.options.sync_area + context_.layout.want(context_.self(), origin);
  WantLine line;
  context_.memory.load_line(&line, context_.pool.base() + place);
  if (line.checksum != pool::line_checksum(&line, place) || !later(line.serial, served_[origin]))
    return false;
  served_[origin] = line.serial;
  Want& want = wants_[origin];
  want.by_lock = line.by_lock != 0;
  const Member& own = context_.own();
  const std::uint64_t limit = (own.bytes + line_bytes - 1) / line_bytes * line_bytes;
  for (std::size_t i = 0; i < max_ranges; ++i) {
    const Range& range = line.ranges[i];
    const bool sound = range.first <= range.end && range.end <= limit;
    want.ranges[i] = sound ? range : Range{};
  }
  return true;
}

/// What peers want, and `all`: sorted, disjoint.
std::vector<Range> Exposure::united(bool only_by_lock, std::vector<Range> all) const {
  const std::uint64_t begin = context_.own().offset;
  for (const Want& want : wants_) {
    if (only_by_lock && !want.by_lock) continue;
    for (const Range& range : want.ranges) {
      if (range.bytes() != 0) all.push_back({begin + range.first, begin + range.end});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  std::vector<Range> apart;
  for (const Range& range : all) {
    if (!apart.empty() && range.first <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, range.end);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

/// Answers new wants. A peer may reach the ranges once it reads the answer: all earlier stores
/// there are at the device. Later ones go there at the next epoch.
bool Exposure::serve() {
  if (!may_be_asked_) return false;
  const auto& memory = context_.memory;
  const std::uint64_t ring =
      memory.observe_word(context_.sync_area(context_.layout.bell(context_.self())));
  if (ring == heard_) return false;
  heard_ = ring;  // a want that arrives after this look rings again
  memory.invalidate(context_.sync_area(context_.layout.want(context_.self(), 0)),
                    context_.ranks() * line_bytes);
  memory.load_fence();
  std::vector<std::uint32_t> taken;
  for (std::uint32_t origin = 0; origin < context_.ranks(); ++origin) {
    if (take(origin)) taken.push_back(origin);
  }
  if (taken.empty()) return false;
  // What is given back may have been put to in the epoch that ends with the next drop().
  reached_ = united(false, std::move(reached_));
  reached_by_lock_ = united(true, std::move(reached_by_lock_));
  given_back_ = true;
  send();
  for (const std::uint32_t origin : taken) signals_.answer(origin, served_[origin]);
  return true;
}

}  // namespace penstock::window
