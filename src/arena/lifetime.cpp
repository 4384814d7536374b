// Lifetimes: which objects outlive their processes, and which also outlive their hosts.
#include "arena/impl.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "pool/flush_table.hpp"
#include "pool/reclaim.hpp"

namespace penstock::arena {

Result<void> Arena::Impl::check_durability(std::string_view name) const {
  if (pool.device().durability() != device::Durability::none) return {};
  return fail(
      ErrorCode::unavailable,
      "object \"{}\" cannot be persistent: pool {} lies in a host's memory and ends with its "
      "boot; a pool that stays lies in a file or on a device: penstock pool create "
      "/var/lib/POOL --size {}",
      name, pool.info().spec, base::format_bytes(pool.info().bytes));
}

Result<void> Arena::Impl::sync_all() const {
  pool.memory().full_fence();
  return pool.device().sync(0, pool.bytes());
}

Result<ExtentHeader> Arena::Impl::extent_of(const ExtentReader& reader,
                                            const Object& object) const {
  const auto slot = table.read(object.slot);
  if (slot && slot->entry.generation == object.generation) {
    const auto extent = reader.peek(slot->entry.offset - line_bytes);
    if (extent && extent->state == ExtentState::used && extent->slot == object.slot &&
        extent->generation == object.generation)
      return *extent;
  }
  return fail(ErrorCode::not_found, "object \"{}\" of generation {} is gone", object.name,
              object.generation);
}

Result<Lifetime> Arena::lifetime(const Object& object) const {
  const ExtentReader reader(impl_->region, impl_->geometry, impl_->key);
  return PENSTOCK_TRY(impl_->extent_of(reader, object)).lifetime;
}

Result<void> Arena::set_lifetime(const Object& object, Lifetime lifetime) {
  const bool persistent = lifetime == Lifetime::persistent;
  if (persistent) PENSTOCK_TRY(impl_->check_durability(object.name));
  {
    const auto guard = PENSTOCK_TRY(impl_->pool.lock());
    auto space = PENSTOCK_TRY(impl_->space());
    auto extent = PENSTOCK_TRY(impl_->extent_of(space, object));
    const bool owned = lifetime == Lifetime::process;
    extent.lifetime = lifetime;
    extent.owner = owned ? impl_->pool.token() : 0;
    space.change(extent);
    impl_->forget(object.generation);
    if (owned) impl_->remember(object.generation, object.slot);
  }
  if (!persistent) return {};
  publish_stores(object);  // this process's stores to it so far
  return impl_->sync_all();
}

std::uint64_t Arena::owner(const Object& object) const {
  const ExtentReader reader(impl_->region, impl_->geometry, impl_->key);
  const auto extent = impl_->extent_of(reader, object);
  return extent ? extent->owner : 0;
}

Result<bool> Arena::pass_on(const std::vector<Object>& objects,
                            const std::function<std::uint64_t(std::uint64_t owner)>& heir) {
  const auto guard = PENSTOCK_TRY(impl_->pool.lock());
  auto space = PENSTOCK_TRY(impl_->space());
  for (const Object& object : objects) impl_->forget(object.generation);
  const auto first = impl_->extent_of(space, objects.front());
  if (!first) return false;
  const std::uint64_t owner = heir(first->owner);
  if (owner == 0) impl_->pool.reclaim().record_known_deaths();
  // A process that dies in between leaves the first one, and its owner ends what it began.
  for (auto object = objects.rbegin(); object != objects.rend(); ++object) {
    auto extent = impl_->extent_of(space, *object);
    const auto slot = impl_->table.read(object->slot);
    if (!extent || !slot) continue;
    if (owner == 0) {
      impl_->erase(space, TableEntry{object->slot, *slot});
    } else if (extent->owner != owner) {
      extent->owner = owner;
      space.change(*extent);
    }
  }
  return owner == 0;
}

std::optional<Object> Arena::find(std::uint32_t slot, std::uint64_t generation) const {
  const auto found = impl_->table.read(slot);
  if (!found || found->entry.generation != generation) return std::nullopt;
  return impl_->to_object(TableEntry{slot, *found});
}

bool Arena::stands(const Object& object) const {
  const auto found = impl_->table.read(object.slot);
  return found && found->entry.generation == object.generation;
}

Result<bool> Arena::is_flushed(const Object& object, std::uint32_t node) {
  const auto& flushes = impl_->pool.reclaim().flushes();
  if (!impl_->pool.memory().loads_may_be_stale() || node >= flushes.nodes()) return true;
  auto space = PENSTOCK_TRY(impl_->space());
  auto extent = PENSTOCK_TRY(impl_->extent_of(space, object));
  if (extent.lifetime == Lifetime::process) return true;  // it is freed with its owner
  if (extent.owner == 0) {
    extent.owner = flushes.clock().ticks + 1;
    space.change(extent);  // before the tick, as for an extent that is set aside
    flushes.tick();
  } else if (extent.owner == flushes.clock().ticks + 1) {
    flushes.tick();  // the process that asked was killed before it
  }
  const auto reached = [&] {
    const auto times = flushes.times();
    return times.flushes[node] >= extent.owner || times.deaths[node] == 0;
  };
  if (reached()) return true;
  impl_->flusher.finish();
  return reached();
}

Result<void> Arena::forget_flush(const Object& object) {
  if (!impl_->pool.memory().loads_may_be_stale()) return {};
  auto space = PENSTOCK_TRY(impl_->space());
  auto extent = PENSTOCK_TRY(impl_->extent_of(space, object));
  if (extent.owner == 0 || extent.lifetime == Lifetime::process) return {};
  extent.owner = 0;
  space.change(extent);
  return {};
}

}  // namespace penstock::arena
