#include "window/exposure.hpp"

#include <algorithm>
#include <cstring>

#include "pool/sealed_line.hpp"

namespace penstock::window {

namespace {

bool anybody_apart(const Context& context) {
  for (std::uint32_t rank = 0; rank < context.ranks(); ++rank) {
    if (context.apart(rank)) return true;
  }
  return false;
}

}  // namespace

Exposure::Exposure(Context& context, Signals& signals) : context_(context), signals_(signals) {
  const Member& own = context.member(context.self());
  may_be_asked_ = false;
  if (!anybody_apart(context)) return;
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
}

void Exposure::send() {
  for (const Range& range : reached_)
    context_.memory.write_back(context_.pool.base() + range.first, range.bytes());
}

void Exposure::drop() {
  for (const Range& range : reached_)
    context_.memory.invalidate(context_.pool.base() + range.first, range.bytes());
  context_.memory.settle();
}

void Exposure::store(const Carried& put) {
  std::byte* const to = context_.segment(context_.self()) + put.at;
  std::memcpy(to, put.data, put.bytes);
  context_.memory.write_back(to, put.bytes);
}

void Exposure::drop_all() {
  const Member& own = context_.member(context_.self());
  if (own.bytes != 0) context_.memory.invalidate(context_.segment(context_.self()), own.bytes);
  context_.memory.settle();
}

/// What `origin` asked for under `serial`; nothing of it is believed unchecked.
bool Exposure::take(std::uint32_t origin, std::uint32_t serial) {
  const std::uint64_t place = context_.options.area + context_.layout.want(context_.self(), origin);
  const auto line =
      pool::observe_sealed_line<WantLine>(context_.memory, context_.pool.base(), place);
  if (!line || line->serial != serial) return false;
  const Member& own = context_.member(context_.self());
  const std::uint64_t limit = (own.bytes + line_bytes - 1) / line_bytes * line_bytes;
  for (std::size_t i = 0; i < most_ranges; ++i) {
    const Range& range = line->ranges[i];
    const bool sound = range.first <= range.end && range.end <= limit;
    wants_[origin][i] = sound ? range : Range{};
  }
  return true;
}

void Exposure::unite() {
  const std::uint64_t begin = context_.member(context_.self()).offset;
  std::vector<Range> all;
  for (const auto& ranges : wants_) {
    for (const Range& range : ranges) {
      if (range.bytes() != 0) all.push_back({begin + range.first, begin + range.end});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  reached_.clear();
  for (const Range& range : all) {
    if (!reached_.empty() && range.first <= reached_.back().end) {
      reached_.back().end = std::max(reached_.back().end, range.end);
    } else {
      reached_.push_back(range);
    }
  }
}

/// What peers wait for. They may reach the ranges once they are told that all that was stored
/// there is at the device; what is stored later goes there at the next epoch.
bool Exposure::serve() {
  if (!may_be_asked_) return false;
  signals_.observe_asks(asked_);
  std::vector<std::uint32_t> taken;
  for (std::uint32_t origin = 0; origin < context_.ranks(); ++origin) {
    if (!later(asked_[origin], served_[origin]) || !take(origin, asked_[origin])) continue;
    served_[origin] = asked_[origin];
    taken.push_back(origin);
  }
  if (taken.empty()) return false;
  unite();
  send();
  for (const std::uint32_t origin : taken) signals_.answer(origin, served_[origin]);
  return true;
}

}  // namespace penstock::window
