#include "arena/space.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::arena {

namespace {

std::uint64_t journal_checksum(const JournalTarget& target, const ExtentHeader& image,
                               std::uint64_t key) {
  constexpr std::size_t target_part = sizeof(JournalTarget) - sizeof(std::uint64_t);
  unsigned char both[target_part + sizeof(ExtentHeader)];
  std::memcpy(both, &target, target_part);
  std::memcpy(both + target_part, &image, sizeof image);
  return hash_bytes(both, sizeof both, key);
}

bool is_valid_extent(const ExtentHeader& header, std::uint64_t offset, const Geometry& geometry,
                     std::uint64_t key) {
  const bool known_state = header.state == ExtentState::free || header.state == ExtentState::used ||
                           header.state == ExtentState::quarantined;
  return header.magic == extent_magic && header.offset == offset && known_state &&
         header.bytes >= line_bytes && header.bytes % line_bytes == 0 &&
         geometry.is_extent_place(offset) && header.bytes <= geometry.extents_end - offset &&
         header.checksum == line_checksum(header, key);
}

ExtentHeader free_extent(std::uint64_t offset, std::uint64_t bytes, std::uint64_t generation) {
  ExtentHeader header{};
  header.magic = extent_magic;
  header.state = ExtentState::free;
  header.offset = offset;
  header.bytes = bytes;
  header.generation = generation;
  return header;
}

std::uint64_t extent_bytes(const SpaceRequest& request) {
  return line_bytes + base::align_up(request.bytes, line_bytes);
}

std::uint64_t row_bytes(const SpaceRequest& request, std::size_t number) {
  return (number - 1) * Space::row_step(request) + extent_bytes(request);
}

/// Bytes to leave free in front so that the object behind the header is aligned as asked; nullopt
/// if `needed` bytes do not fit. The header may lie on another part than its object.
std::optional<std::uint64_t> front_bytes(const ExtentHeader& extent, const SpaceRequest& request,
                                         std::uint64_t needed) {
  const std::uint64_t first_byte = extent.offset + line_bytes;
  const std::uint64_t end = extent.offset + extent.bytes;
  std::uint64_t at = base::align_up(first_byte, request.alignment);
  while (needed <= end - extent.offset && at - line_bytes <= end - needed) {
    if (!request.on_part) return at - first_byte;
    const auto stripe = request.on_part->striping.stripe_of(at);
    const bool fits = needed - line_bytes <= stripe.end - at;
    if (fits && stripe.part == request.on_part->part) return at - first_byte;
    at = base::align_up(stripe.end, request.alignment);
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t Space::row_step(const SpaceRequest& request) {
  return base::align_up(extent_bytes(request), request.alignment);
}

std::optional<ExtentHeader> ExtentReader::peek(std::uint64_t offset) const {
  if (!geometry_.is_extent_place(offset)) return std::nullopt;
  ExtentHeader header;
  region_.observe_line(offset, &header);
  if (!is_valid_extent(header, offset, geometry_, key_)) return std::nullopt;
  return header;
}

Result<ExtentHeader> ExtentReader::read(std::uint64_t offset) const {
  if (auto header = peek(offset)) return *header;
  return fail(ErrorCode::wrong_format,
              "the arena is damaged: no extent header at pool offset {}, where one must stand; "
              "make the pool anew: penstock pool create SPEC --overwrite",
              offset);
}

Result<void> ExtentReader::for_each(const std::function<void(const ExtentHeader&)>& visit) const {
  for (std::uint64_t offset = geometry_.extents_start; offset < geometry_.extents_end;) {
    const auto header = PENSTOCK_TRY(read(offset));
    visit(header);
    offset += header.bytes;
  }
  return {};
}

void Space::format(const Region& region, const Geometry& geometry, std::uint64_t key) {
  Space space(region, geometry, key);
  space.publish_new(
      free_extent(geometry.extents_start, geometry.extents_end - geometry.extents_start, 0));
  space.publish_moving(geometry.extents_start);
  region.store_fence();
}

Result<Space> Space::begin(const Region& region, const Geometry& geometry, std::uint64_t key,
                           const pool::FlushTable& flushes) {
  Space space(region, geometry, key, flushes);
  region.invalidate(geometry.moving_offset(), 3 * line_bytes);
  region.load_fence();
  space.finish_journal();
  PENSTOCK_TRY(space.load_moving());
  return space;
}

// The caller has invalidated the journal's lines and done a load fence. A valid journal holds the
// latest rewrite: repeating it is harmless, whether it reached its place or not.
void Space::finish_journal() {
  JournalTarget journal;
  region_.load_line(geometry_.journal_offset(), &journal);
  if (journal.checksum == 0 || journal.magic != journal_magic) return;
  ExtentHeader image;
  region_.load_line(geometry_.journal_image_offset(), &image);
  if (journal.checksum != journal_checksum(journal, image, key_)) return;
  if (!is_valid_extent(image, journal.target, geometry_, key_)) return;
  // The clock may have advanced since it was written: nodes that flushed up to now did not meet the
  // extent.
  const std::uint64_t ticks = flushes_->clock().ticks;
  const bool late = waits_for_flush(image) && image.owner <= ticks;
  if (late) image.owner = ticks + 1;
  image.checksum = line_checksum(image, key_);
  region_.publish_line(journal.target, &image);
  region_.store_fence();
  if (late) flushes_->tick();
  region_.publish_word(geometry_.journal_offset() + offsetof(JournalTarget, checksum), 0);
}

Result<void> Space::load_moving() {
  Moving moving;
  region_.load_line(geometry_.moving_offset(), &moving);
  if (moving.magic == moving_magic && moving.checksum == line_checksum(moving, key_) &&
      geometry_.is_extent_place(moving.cursor) && moving.next_generation != 0) {
    cursor_ = moving.cursor;
    next_generation_ = moving.next_generation;
    return {};
  }
  // A process that died has half written this line: the extents remember the highest generation.
  std::uint64_t highest = 0;
  auto walked =
      for_each([&](const ExtentHeader& extent) { highest = std::max(highest, extent.generation); });
  if (!walked) return walked;
  next_generation_ = std::max<std::uint64_t>(highest + 1, 1);  // 0 is not a generation
  publish_moving(geometry_.extents_start);
  return {};
}

void Space::publish_moving(std::uint64_t cursor) {
  cursor_ = cursor;
  Moving moving{};
  moving.magic = moving_magic;
  moving.cursor = cursor;
  moving.next_generation = next_generation_;
  moving.checksum = line_checksum(moving, key_);
  region_.publish_line(geometry_.moving_offset(), &moving);
}

/// Publishes a header that the chain does not lead to yet.
void Space::publish_new(ExtentHeader header) const {
  header.checksum = line_checksum(header, key_);
  region_.publish_line(header.offset, &header);
}

/// Rewrites a header in the chain. Earlier publishes reach the device before it: new headers, a
/// cursor, the word that removed a name.
void Space::rewrite(ExtentHeader header) {
  header.checksum = line_checksum(header, key_);
  JournalTarget journal{};
  journal.magic = journal_magic;
  journal.target = header.offset;
  journal.checksum = journal_checksum(journal, header, key_);
  region_.store_fence();
  region_.publish_line(geometry_.journal_image_offset(), &header);
  region_.publish_line(geometry_.journal_offset(), &journal);
  region_.store_fence();
  region_.publish_line(header.offset, &header);
  region_.store_fence();
  region_.publish_word(geometry_.journal_offset() + offsetof(JournalTarget, checksum), 0);
}

/// Returns `extent` joined with all free extents right behind it. Publishes only a cursor that
/// would otherwise point inside. The caller rewrites the header.
Result<ExtentHeader> Space::join_following(const ExtentHeader& extent) {
  ExtentHeader joined = extent;
  while (joined.offset + joined.bytes < geometry_.extents_end) {
    const auto next = PENSTOCK_TRY(read(joined.offset + joined.bytes));
    if (next.state != ExtentState::free) break;
    joined.bytes += next.bytes;
    joined.generation = std::max(joined.generation, next.generation);
  }
  if (cursor_ > joined.offset && cursor_ < joined.offset + joined.bytes) {
    publish_moving(joined.offset);
  }
  return joined;
}

/// Walks the extents that begin in [from, to).
Result<std::optional<ExtentHeader>> Space::search(std::uint64_t from, std::uint64_t to,
                                                  const SpaceRequest& request, std::uint64_t needed,
                                                  std::uint64_t& largest) {
  for (std::uint64_t offset = from; offset < to && headers_left_ != 0; --headers_left_) {
    auto extent = read(offset);
    if (!extent) return unexpected(extent.error());
    const bool was_free = extent->state == ExtentState::free;
    if (extent->state == ExtentState::quarantined && is_flushed(*extent)) {
      extent = free_extent(extent->offset, extent->bytes, extent->generation);
    }
    if (extent->state == ExtentState::quarantined) quarantined_bytes_ += extent->bytes;
    if (extent->state == ExtentState::free) {
      const auto joined = PENSTOCK_TRY(join_following(*extent));
      if (!was_free || joined.bytes != extent->bytes) rewrite(joined);
      extent = joined;
      largest = std::max(largest, extent->bytes - line_bytes);
      if (front_bytes(*extent, request, needed)) return *extent;
    }
    offset += extent->bytes;
  }
  return std::nullopt;
}

Result<ExtentHeader> Space::allocate(const SpaceRequest& request) {
  std::uint64_t largest = 0;
  quarantined_bytes_ = 0;
  headers_left_ = request.max_headers;
  times_.reset();  // deaths may have been recorded under this lock
  const bool possible = request.bytes <= geometry_.extents_end - geometry_.extents_start;
  const std::uint64_t needed = possible ? row_bytes(request, 1) : UINT64_MAX;
  const std::vector<Tenant> tenant{{request.slot, request.owner}};
  const std::uint64_t start = peek(cursor_) ? cursor_ : geometry_.extents_start;
  auto found = search(start, geometry_.extents_end, request, needed, largest);
  if (found && !*found) found = search(geometry_.extents_start, start, request, needed, largest);
  if (!found) return unexpected(found.error());
  if (*found) {
    const auto placed = place(**found, request, tenant);
    if (placed) return placed->front();
    if (placed.error().code != ErrorCode::no_space || start == geometry_.extents_start)
      return unexpected(placed.error());
    // the extent found here was used before, and so its range is reserved
    found = search(geometry_.extents_start, start, request, needed, largest);
    if (!found) return unexpected(found.error());
    if (!*found) return unexpected(placed.error());
    return PENSTOCK_TRY(place(**found, request, tenant)).front();
  }
  const std::string where =
      request.on_part ? fmt::format(" on part {} of the pool", request.on_part->part) : "";
  return fail(ErrorCode::no_space, "{} aligned to {} are needed{}, the largest free space is {}",
              base::format_bytes(request.bytes), base::format_bytes(request.alignment), where,
              base::format_bytes(largest));
}

std::optional<ExtentHeader> Space::find_free(std::uint64_t bytes, std::uint32_t headers) const {
  std::uint64_t offset = peek(cursor_) ? cursor_ : geometry_.extents_start;
  for (; headers != 0 && offset < geometry_.extents_end; --headers) {
    const auto extent = peek(offset);
    if (!extent) break;
    if (extent->state == ExtentState::free && extent->bytes >= bytes) return extent;
    offset += extent->bytes;
  }
  return std::nullopt;
}

Result<std::vector<ExtentHeader>> Space::allocate_row(const ExtentHeader& in,
                                                      const SpaceRequest& request,
                                                      const std::vector<Tenant>& tenants) {
  const std::uint64_t whole = geometry_.extents_end - geometry_.extents_start;
  const bool possible =
      request.bytes <= whole && !tenants.empty() && tenants.size() - 1 <= whole / row_step(request);
  if (possible && front_bytes(in, request, row_bytes(request, tenants.size())))
    return place(in, request, tenants);
  return fail(ErrorCode::no_space, "{} times {} do not fit into {}", tenants.size(),
              base::format_bytes(request.bytes), base::format_bytes(in.bytes));
}

Result<std::vector<ExtentHeader>> Space::place(const ExtentHeader& free_space,
                                               const SpaceRequest& request,
                                               const std::vector<Tenant>& tenants) {
  const std::uint64_t needed = row_bytes(request, tenants.size());
  const std::uint64_t front = *front_bytes(free_space, request, needed);  // search() found that it
                                                                          // fits
  const std::uint64_t tail = free_space.bytes - front - needed;
  if (request.reserve) {
    const std::uint64_t with_next = needed + (tail != 0 ? line_bytes : 0);
    PENSTOCK_TRY(request.reserve(free_space.offset + front, with_next));
  }
  const std::uint64_t born = flushes_->clock().ticks;
  std::vector<ExtentHeader> row;
  std::uint64_t at = free_space.offset + front;
  for (const Tenant& tenant : tenants) {
    ExtentHeader used{};
    used.magic = extent_magic;
    used.state = ExtentState::used;
    used.offset = at;
    used.bytes = row.size() + 1 < tenants.size() ? row_step(request) : extent_bytes(request);
    used.slot = tenant.slot;
    used.lifetime = request.lifetime;
    used.owner = tenant.owner;
    used.born = born;
    used.generation = next_generation_++;
    at += used.bytes;
    row.push_back(used);
  }
  publish_moving(free_space.offset);  // there is a header here before and after the steps below
  if (tail != 0) publish_new(free_extent(at, tail, free_space.generation));
  for (std::size_t i = 1; i < row.size(); ++i) publish_new(row[i]);
  if (front == 0) {
    rewrite(row.front());
  } else {
    publish_new(row.front());
    rewrite(free_extent(free_space.offset, front, free_space.generation));
  }
  if (row.size() > 1 && tail != 0) publish_moving(at);  // the next search begins behind the row
  return row;
}

ExtentHeader Space::assign(ExtentHeader extent, std::uint32_t slot) {
  extent.slot = slot;
  if (extent.lifetime != Lifetime::process) extent.owner = 0;
  rewrite(extent);
  return extent;
}

void Space::free(const ExtentHeader& extent) {
  const auto clock = flushes_->clock();
  if (clock.last_death <= extent.born) return release(extent);
  ExtentHeader aside = extent;
  aside.state = ExtentState::quarantined;
  aside.slot = 0;
  aside.owner = clock.ticks + 1;
  rewrite(aside);  // before the tick: a node that has flushed up to it has met this extent
  flushes_->tick();
}

/// True if every node on which a process died since the extent was made has flushed it.
bool Space::is_flushed(const ExtentHeader& quarantined) {
  if (!times_) times_ = flushes_->times();
  if (quarantined.owner > ticks_) ticks_ = flushes_->clock().ticks;
  if (quarantined.owner ==
      ticks_ + 1) {  // the process that set it aside was killed before the tick
    flushes_->tick();
    ++ticks_;
  }
  for (std::uint32_t node = 0; node < flushes_->nodes(); ++node) {
    if (times_->deaths[node] > quarantined.born && times_->flushes[node] < quarantined.owner)
      return false;
  }
  return true;
}

Result<void> Space::end_quarantines() {
  times_.reset();
  std::vector<ExtentHeader> flushed;
  const auto walked = for_each([&](const ExtentHeader& extent) {
    if (extent.state == ExtentState::quarantined && is_flushed(extent)) flushed.push_back(extent);
  });
  if (!walked) return walked;
  // Backwards, so that each joins the free one that the previous step left behind it.
  for (auto extent = flushed.rbegin(); extent != flushed.rend(); ++extent) release(*extent);
  return {};
}

void Space::release(const ExtentHeader& extent) {
  const ExtentHeader alone = free_extent(extent.offset, extent.bytes, extent.generation);
  // Damage behind this extent is reported by the next walk that reaches it.
  const ExtentHeader joined = join_following(alone).value_or(alone);
  // Both the old and the new cursor point to headers before and after the rewrite.
  if (cursor_ == joined.offset + joined.bytes) publish_moving(joined.offset);
  rewrite(joined);
}

}  // namespace penstock::arena
