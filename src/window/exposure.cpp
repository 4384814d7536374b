#include "window/exposure.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "pool/checksummed_line.hpp"

namespace penstock::window {

Exposure::Exposure(Context& context, Directory& directory, Signals& signals)
    : context_(context), directory_(directory), signals_(signals) {
  const Member& own = context.own();
  may_get_requests_ = false;
  if (!context.any_apart()) return;
  if (context.options.is_shared) {
    for (const Member& member : context.options.members) {
      if (member.bytes != 0) reached_.push_back({member.offset, member.offset + member.bytes});
    }
  } else if (own.bytes > whole_segment_bytes) {
    may_get_requests_ = true;
  } else if (own.bytes != 0) {
    reached_.push_back({own.offset, own.offset + own.bytes});
  }
  lock_ranges_ = reached_;
}

void Exposure::send() {
  send(reached_);
}

void Exposure::drop() {
  drop(reached_);
  if (!has_returned_ranges_) return;
  has_returned_ranges_ = false;  // puts made before the return are visible from here on
  reached_ = union_of_wants(false);
  lock_ranges_ = union_of_wants(true);
}

void Exposure::publish_lock_ranges() {
  if (lock_ranges_.empty()) return;
  send(lock_ranges_);
  context_.memory.full_fence();  // the others may learn of it outside the pool
}

void Exposure::invalidate_lock_ranges() {
  if (!lock_ranges_.empty()) drop(lock_ranges_);
}

std::uint64_t Exposure::lock_range_bytes() const {
  std::uint64_t bytes = 0;
  for (const Range& range : lock_ranges_) bytes += range.bytes();
  return bytes;
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
  drop();  // in a shared window also the others' segments
}

/// Reads and checks the want of `origin`; false if there is no new one. A torn line is still being
/// published, and its ring follows.
bool Exposure::read_want(std::uint32_t origin, Asker& asker) {
  const std::uint64_t place = directory_.from(origin) + want_at;
  WantLine line;
  context_.memory.load_line(&line, context_.at(place));
  if (line.checksum != pool::line_checksum(&line, place) || !later(line.serial, asker.served))
    return false;
  asker.served = line.serial;
  asker.by_lock = line.by_lock != 0;
  const Member& own = context_.own();
  const std::uint64_t limit = (own.bytes + line_bytes - 1) / line_bytes * line_bytes;
  for (std::size_t i = 0; i < max_ranges; ++i) {
    const Range& range = line.ranges[i];
    const bool sound = range.first <= range.end && range.end <= limit;
    asker.ranges[i] = sound ? range : Range{};
  }
  return true;
}

/// The union of the ranges that peers want and of `all`: sorted, disjoint.
std::vector<Range> Exposure::union_of_wants(bool only_by_lock, std::vector<Range> all) const {
  const std::uint64_t begin = context_.own().offset;
  for (const auto& [origin, asker] : askers_) {
    if (only_by_lock && !asker.by_lock) continue;
    for (const Range& range : asker.ranges) {
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

/// A ring may have been overwritten by another rank's. A rank that waits for an answer rings again;
/// a rank that returns ranges has sent a request before, and serve() reads the wants of all such
/// ranks.
bool Exposure::read_bell(std::vector<std::uint32_t>& ringers) {
  std::uint64_t rings[words_of_line];
  context_.memory.observe_line(rings, context_.line(RankLine::bell, context_.self()));
  bool rung = false;
  for (std::uint32_t word = 0; word < words_of_line; ++word) {
    if (rings[word] == last_rings_[word]) continue;
    last_rings_[word] = rings[word];  // a want that arrives after this look rings again
    rung = true;
    const std::uint32_t ringer = ringer_of(rings[word]);
    if (ringer < context_.ranks()) ringers.push_back(ringer);
  }
  return rung;
}

/// Answers new wants. A peer may access the ranges once it reads the answer: all earlier stores
/// there are at the device. Later stores get there at the next epoch.
bool Exposure::serve() {
  if (!may_get_requests_) return false;
  std::vector<std::uint32_t> ringers;
  if (!read_bell(ringers)) return false;
  directory_.find(ringers);
  for (const std::uint32_t ringer : ringers) {
    if (directory_.from(ringer) != 0) askers_.try_emplace(ringer);
  }
  const auto& memory = context_.memory;
  for (const auto& [origin, asker] : askers_)
    memory.invalidate(context_.at(directory_.from(origin) + want_at), line_bytes);
  memory.load_fence();
  std::vector<std::uint32_t> taken;
  for (auto& [origin, asker] : askers_) {
    if (read_want(origin, asker)) taken.push_back(origin);
  }
  return !taken.empty() && answer(taken);
}

bool Exposure::answer(const std::vector<std::uint32_t>& taken) {
  // Peers may have put to the returned ranges, in the epoch that the next drop() ends.
  reached_ = union_of_wants(false, std::move(reached_));
  lock_ranges_ = union_of_wants(true, std::move(lock_ranges_));
  has_returned_ranges_ = true;
  send();
  if (auto prepared = signals_.prepare(taken); !prepared) {
    // they ask again, and this rank handles the ring again
    if (!std::exchange(warned_full_, true))
      base::log(base::Level::warn, "a window's ranks wait for an answer: {}",
                prepared.error().message);
    for (const std::uint32_t origin : taken) {
      last_rings_[bell_word_of(origin)] = 0;
      askers_[origin].served -= 1;
    }
    return false;
  }
  for (const std::uint32_t origin : taken) signals_.answer(origin, askers_[origin].served);
  return true;
}

}  // namespace penstock::window
