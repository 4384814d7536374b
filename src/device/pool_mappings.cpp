#include "device/pool_mappings.hpp"

#include <algorithm>
#include <charconv>
#include <compare>
#include <string>
#include <vector>

#include "base/file.hpp"

namespace penstock::device {

namespace {

/// A piece of a file.
struct FilePiece {
  std::uint64_t device = 0, inode = 0, offset = 0;
  auto operator<=>(const FilePiece&) const = default;
  bool same_file(const FilePiece& other) const {
    return device == other.device && inode == other.inode;
  }
};

/// Shared memory of a file, as this process sees it.
struct Segment {
  std::uint64_t begin = 0, end = 0;
  FilePiece piece;
};

/// Reads a number and the character `behind` after it.
bool number(std::string_view& text, int base, char behind, std::uint64_t* value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  if (read.ec != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  if (text.empty() || text.front() != behind) return false;
  text.remove_prefix(1);
  return true;
}

/// "7f00-7f10 rw-s 00001000 00:1a 53   /dev/shm/pool"; nullopt if it is private or not of a file.
std::optional<Segment> parse_segment(std::string_view line) {
  Segment segment;
  std::uint64_t major = 0, minor = 0;
  if (!number(line, 16, '-', &segment.begin) || !number(line, 16, ' ', &segment.end)) return {};
  if (line.size() < 5 || line[3] != 's') return std::nullopt;
  line.remove_prefix(5);
  if (!number(line, 16, ' ', &segment.piece.offset) || !number(line, 16, ':', &major) ||
      !number(line, 16, ' ', &minor))
    return std::nullopt;
  segment.piece.device = major << 32 | minor;
  // a path or the end of the line follows the inode
  const auto read = std::from_chars(line.data(), line.data() + line.size(), segment.piece.inode);
  const bool usable = read.ec == std::errc{} && segment.piece.inode != 0;
  return usable && segment.begin < segment.end ? std::optional(segment) : std::nullopt;
}

std::vector<Segment> parse_segments(std::string_view maps) {
  std::vector<Segment> segments;
  while (!maps.empty()) {
    const std::size_t end = std::min(maps.find('\n'), maps.size());
    if (const auto segment = parse_segment(maps.substr(0, end))) segments.push_back(*segment);
    maps.remove_prefix(std::min(end + 1, maps.size()));
  }
  return segments;
}

/// The part of `segment` that lies in [begin, end).
Segment cut(const Segment& segment, std::uint64_t begin, std::uint64_t end) {
  Segment part = segment;
  part.begin = std::max(segment.begin, begin);
  part.end = std::min(segment.end, end);
  part.piece.offset += part.begin - segment.begin;
  return part;
}

/// The end of a segment in its file.
FilePiece end_of(const Segment& segment) {
  FilePiece end = segment.piece;
  end.offset += segment.end - segment.begin;
  return end;
}

}  // namespace

PoolMappings::PoolMappings(const std::byte* base, std::uint64_t bytes,
                           const Attachments* attachments)
    : own_{.begin = reinterpret_cast<std::uintptr_t>(base),
           .end = reinterpret_cast<std::uintptr_t>(base) + bytes},
      attachments_(attachments) {}

std::optional<PoolMappings::Range> PoolMappings::look_up(std::uint64_t at,
                                                         std::uint64_t bytes) const {
  const std::uint32_t count = std::min(count_.load(std::memory_order_acquire), max_mappings);
  for (std::uint32_t i = 0; i < count; ++i) {
    const SharedRange& shared = ranges_[i];
    const Range range{
        .begin = shared.begin.load(std::memory_order_acquire),
        .end = shared.end.load(std::memory_order_acquire),
        .offset = shared.offset.load(std::memory_order_acquire),
        .owner = {.slot = shared.owner_slot.load(std::memory_order_acquire),
                  .generation = shared.owner_generation.load(std::memory_order_acquire)}};
    if (range.holds(at, bytes)) return range;
  }
  return std::nullopt;
}

std::optional<PoolMappings::Range> PoolMappings::range_of(std::uint64_t at,
                                                          std::uint64_t bytes) const {
  const std::uint32_t before = version_.load(std::memory_order_acquire);
  if (before % 2 == 0) {
    const auto range = look_up(at, bytes);
    if (version_.load(std::memory_order_relaxed) == before) return range;
  }
  const std::lock_guard lock(refreshing_);  // a refresh interfered: wait for its end
  return look_up(at, bytes);
}

std::optional<std::uint64_t> PoolMappings::offset_of(const void* address,
                                                     std::uint64_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (own_.holds(at, bytes)) return at - own_.begin;
  const auto range = range_of(at, bytes);
  if (!range) return std::nullopt;
  return range->offset + (at - range->begin);
}

std::optional<std::uint64_t> PoolMappings::attached_offset_of(const void* address,
                                                              std::uint64_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (own_.holds(at, bytes)) return at - own_.begin;
  const auto range = range_of(at, bytes);
  if (!range || range->owner.generation == 0 || !attachments_->still_attached(range->owner))
    return std::nullopt;
  return range->offset + (at - range->begin);
}

void PoolMappings::refresh() {
  refresh_from(base::read_file("/proc/self/maps"));
}

void PoolMappings::refresh_from(std::string_view maps) {
  publish(find(maps),
          attachments_ != nullptr ? attachments_->of_this_process() : std::vector<Attachment>{});
}

void PoolMappings::follow_attachments() {
  if (attachments_ == nullptr) return;
  const std::lock_guard lock(following_);
  std::vector<Attachment> now = attachments_->of_this_process();
  if (now == followed_) return;
  followed_ = std::move(now);
  // the next call finds later attachments, since it then differs from this list
  publish(find(base::read_file("/proc/self/maps")), followed_);
}

std::vector<PoolMappings::Range> PoolMappings::find(std::string_view maps) const {
  const std::vector<Segment> segments = parse_segments(maps);
  std::vector<Segment> own;
  for (const Segment& segment : segments) {
    const Segment part = cut(segment, own_.begin, own_.end);
    if (part.begin < part.end) own.push_back(part);
  }
  std::sort(own.begin(), own.end(),
            [](const Segment& a, const Segment& b) { return a.piece < b.piece; });
  std::vector<Range> found;
  for (const Segment& segment : segments) {
    if (segment.begin < own_.end && segment.end > own_.begin) continue;
    // the last own piece that begins no later than the segment is the first one it can overlap
    auto mine = std::upper_bound(
        own.begin(), own.end(), segment.piece,
        [](const FilePiece& piece, const Segment& other) { return piece < other.piece; });
    if (mine != own.begin()) --mine;
    for (; mine != own.end() && mine->piece < end_of(segment); ++mine) {
      if (!mine->piece.same_file(segment.piece)) continue;
      const std::uint64_t from = std::max(mine->piece.offset, segment.piece.offset);
      const std::uint64_t to = std::min(end_of(*mine).offset, end_of(segment).offset);
      if (from >= to) continue;
      const std::uint64_t begin = segment.begin + (from - segment.piece.offset);
      found.push_back({.begin = begin,
                       .end = begin + (to - from),
                       .offset = mine->begin - own_.begin + (from - mine->piece.offset)});
    }
  }
  return found;
}

/// Joins adjacent ranges that continue each other: the stripes of a pool of several parts.
void PoolMappings::publish(std::vector<Range> found, const std::vector<Attachment>& attachments) {
  std::sort(found.begin(), found.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> runs;
  for (const Range& range : found) {
    if (!runs.empty() && runs.back().end == range.begin &&
        runs.back().offset + (range.begin - runs.back().begin) == range.offset)
      runs.back().end = range.end;
    else
      runs.push_back(range);
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Range& a, const Range& b) {
    return a.end - a.begin > b.end - b.begin;
  });
  for (const Attachment& attachment : attachments) {
    for (Range& run : runs)
      if (run.begin == attachment.base && run.offset == 0) run.owner = attachment;
  }
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(runs.size(), max_mappings));

  const std::lock_guard lock(refreshing_);
  version_.fetch_add(1, std::memory_order_relaxed);
  count_.store(count, std::memory_order_release);
  for (std::uint32_t i = 0; i < count; ++i) {
    ranges_[i].begin.store(runs[i].begin, std::memory_order_release);
    ranges_[i].end.store(runs[i].end, std::memory_order_release);
    ranges_[i].offset.store(runs[i].offset, std::memory_order_release);
    ranges_[i].owner_slot.store(runs[i].owner.slot, std::memory_order_release);
    ranges_[i].owner_generation.store(runs[i].owner.generation, std::memory_order_release);
  }
  version_.fetch_add(1, std::memory_order_release);
}

}  // namespace penstock::device
