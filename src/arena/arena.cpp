#include "arena/arena.hpp"

#include <algorithm>
#include <bit>

#include "arena/impl.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "pool/flush_table.hpp"
#include "pool/reclaim.hpp"

namespace penstock::arena {

namespace {

Result<void> check_name(std::string_view name) {
  if (name.empty() || name.size() > max_name_bytes) {
    return fail(ErrorCode::invalid_argument, "an object's name has {} bytes, it needs 1 to {}",
                name.size(), max_name_bytes);
  }
  if (name.find('\0') != std::string_view::npos) {
    return fail(ErrorCode::invalid_argument, "an object's name contains a zero byte");
  }
  return {};
}

Result<void> check_part(std::string_view name, std::uint64_t bytes, std::uint32_t part,
                        const device::Striping& striping) {
  if (part >= striping.parts)
    return fail(ErrorCode::invalid_argument,
                "object \"{}\" on part {} of a pool of {} parts, which count from 0", name, part,
                striping.parts);
  if (striping.parts > 1 && bytes > striping.stripe_bytes)
    return fail(ErrorCode::invalid_argument,
                "object \"{}\" of {} does not fit on one part of the pool, whose stripes have {}",
                name, base::format_bytes(bytes), base::format_bytes(striping.stripe_bytes));
  return {};
}

}  // namespace

Result<void> check_creation(const Wanted& wanted) {
  const auto& [name, bytes, options] = wanted;
  if (auto checked = check_name(name); !checked) return checked;
  if (bytes == 0) {
    return fail(ErrorCode::invalid_argument, "object \"{}\" has 0 bytes, it needs at least 1",
                name);
  }
  if (!std::has_single_bit(options.alignment) || options.alignment > max_alignment) {
    return fail(ErrorCode::invalid_argument,
                "object \"{}\" is aligned to {}, it needs a power of two up to {}", name,
                options.alignment, max_alignment);
  }
  constexpr std::uint64_t max_contents = 1 << 20;  // they are published while the lock is held
  if (options.contents != nullptr && (bytes % line_bytes != 0 || bytes > max_contents)) {
    return fail(ErrorCode::invalid_argument,
                "object \"{}\" has contents of {} bytes, they need whole lines of {}, up to {}",
                name, bytes, line_bytes, max_contents);
  }
  return {};
}

namespace {

/// Reads the arena's geometry; formats the arena under the lock if no process has done so yet.
Result<Formatted> open_or_format(pool::Pool& pool, const Region& region) {
  const Placement placement{pool.info().id, pool.info().arena_offset, pool.info().arena_bytes};
  if (placement.arena_offset % line_bytes != 0 || placement.arena_bytes < control_bytes ||
      pool.at(placement.arena_offset, placement.arena_bytes) == nullptr) {
    return fail(ErrorCode::wrong_format,
                "the arena at offset {} with {} bytes does not lie in pool {}",
                placement.arena_offset, placement.arena_bytes, pool.info().spec);
  }
  auto formatted = read_format(region, placement);
  if (!formatted) return unexpected(formatted.error());
  if (*formatted) return **formatted;
  const auto guard = PENSTOCK_TRY(pool.lock());
  formatted = read_format(region, placement);
  if (!formatted) return unexpected(formatted.error());
  if (*formatted) return **formatted;
  const auto geometry =
      PENSTOCK_TRY(Geometry::choose(placement.arena_offset, placement.arena_bytes));
  const std::uint64_t tables = geometry.extents_start + line_bytes - placement.arena_offset;
  PENSTOCK_TRY(pool.device().reserve(placement.arena_offset, tables));
  return format(region, placement);
}

}  // namespace

Arena::Impl::Impl(pool::Pool& the_pool, const Region& the_region, const Formatted& formatted)
    : pool(the_pool),
      region(the_region),
      geometry(formatted.geometry),
      key(formatted.key),
      table(region, geometry, key),
      flusher(pool, region, geometry, key) {}

Object Arena::Impl::to_object(const TableEntry& entry) const {
  Object object;
  object.name = entry.slot.name_view();
  object.offset = entry.slot.entry.offset;
  object.bytes = entry.slot.entry.bytes;
  object.data = region.at(entry.slot.entry.offset);
  object.generation = entry.slot.entry.generation;
  object.slot = entry.index;
  return object;
}

Arena::Arena(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Arena::~Arena() {
  if (!impl_ || !impl_->pool.attached_here()) return;
  impl_->pool.on_beat(impl_.get(), {});
  impl_->free_own();
}

Result<std::unique_ptr<Arena>> Arena::open(pool::Pool& pool, Reclaimed* freed) {
  const Region region(pool);
  const auto formatted = PENSTOCK_TRY(open_or_format(pool, region));
  auto arena = std::make_unique<Arena>(std::make_unique<Impl>(pool, region, formatted));
  if (pool.token() == 0) return arena;  // an observer changes nothing
  const auto reaped = arena->impl_->reap(pool::Reclaim::Among::near);
  if (!reaped)
    base::log(base::Level::info, "objects of dead processes stay: {}", reaped.error().message);
  if (freed != nullptr) *freed = reaped.value_or(Reclaimed{});
  arena->impl_->flusher.help();
  pool.on_beat(arena->impl_.get(), [impl = arena->impl_.get()] { impl->flusher.step(); });
  return arena;
}

Result<Object> Arena::create(std::string_view name, std::uint64_t bytes,
                             const CreateOptions& options) {
  Wanted wanted{name, bytes, options};
  PENSTOCK_TRY(check_creation(wanted));
  if (options.part)
    PENSTOCK_TRY(check_part(name, bytes, *options.part, impl_->pool.info().striping));
  const bool persistent = options.lifetime == Lifetime::persistent;
  if (persistent) PENSTOCK_TRY(impl_->check_durability(name));
  wanted.options.alignment = std::max(options.alignment, line_bytes);
  auto made = impl_->create_when_flushed(wanted);
  if (!made || !persistent) return made;
  if (PENSTOCK_TRY(lifetime(*made)) != Lifetime::persistent)  // an existing object was opened
    PENSTOCK_TRY(set_lifetime(*made, Lifetime::persistent));
  else
    PENSTOCK_TRY(impl_->sync_all());
  return made;
}

Result<Object> Arena::open(std::string_view name) {
  PENSTOCK_TRY(check_name(name));
  if (const auto found = impl_->table.find(name).found) return impl_->to_object(*found);
  return fail(ErrorCode::not_found,
              "no object \"{}\" in pool {}; to list its objects: penstock pool ls {}", name,
              impl_->pool.info().spec, impl_->pool.info().spec);
}

Result<void> Arena::destroy(const Object& object, std::uint64_t timeout_ns,
                            const std::function<Result<void>()>& may) {
  const auto guard = PENSTOCK_TRY(impl_->pool.lock(timeout_ns));
  const auto slot = impl_->table.read(object.slot);
  if (!slot || slot->entry.generation != object.generation || slot->name_view() != object.name) {
    return fail(ErrorCode::not_found, "object \"{}\" of generation {} is gone already", object.name,
                object.generation);
  }
  if (may) PENSTOCK_TRY(may());
  auto space = PENSTOCK_TRY(impl_->space());
  impl_->pool.reclaim().record_known_deaths();
  impl_->erase(space, TableEntry{object.slot, *slot});
  return {};
}

void Arena::publish_stores(const Object& object) const {
  impl_->region.invalidate(object.offset, object.bytes);
  impl_->region.load_fence();
}

void Arena::defer_reclaim(const Object& object) {
  impl_->forget(object.generation);
  impl_->pool.reclaim().defer();
}

std::vector<Object> Arena::list() const {
  std::vector<Object> objects;
  impl_->table.for_each(
      [&](const TableEntry& entry) { objects.push_back(impl_->to_object(entry)); });
  std::sort(objects.begin(), objects.end(),
            [](const Object& a, const Object& b) { return a.name < b.name; });
  return objects;
}

Stats Arena::stats() const {
  Stats stats;
  const auto guard = impl_->pool.lock();  // without the lock (an observer) the figures are a
                                          // snapshot
  const ExtentReader reader(impl_->region, impl_->geometry, impl_->key);
  stats.bytes_total = impl_->geometry.extents_end - impl_->geometry.extents_start;
  stats.slots = impl_->geometry.slots;
  std::uint64_t free_run = 0;
  const auto walked = reader.for_each([&](const ExtentHeader& extent) {
    if (extent.state == ExtentState::used) {
      stats.bytes_used += extent.bytes;
      ++stats.objects;
      free_run = 0;
      return;
    }
    if (extent.state == ExtentState::quarantined) {
      stats.bytes_quarantined += extent.bytes;
      free_run = 0;
      return;
    }
    free_run += extent.bytes;
    stats.bytes_largest_free = std::max(stats.bytes_largest_free, free_run - line_bytes);
  });
  if (!walked) base::log(base::Level::warn, "{}", walked.error().message);
  stats.damaged = !walked;
  return stats;
}

Quarantine Arena::quarantine() const {
  return impl_->quarantine();
}

Result<void> Arena::end_quarantine_of(std::uint32_t node) {
  const auto guard = PENSTOCK_TRY(impl_->pool.lock());
  impl_->pool.reclaim().flushes().forget_deaths(node);
  auto space = PENSTOCK_TRY(impl_->space());
  return space.end_quarantines();
}

pool::Pool& Arena::pool() const {
  return impl_->pool;
}

}  // namespace penstock::arena
