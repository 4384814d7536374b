// Frees objects of dead processes, and space that a crash left without a name.
#include <unordered_map>

#include "arena/impl.hpp"
#include "base/log.hpp"
#include "pool/members.hpp"
#include "pool/reclaim.hpp"

namespace penstock::arena {

namespace {

/// Tells whether a process's objects must stay; asks the pool once for each token.
class Living {
 public:
  Living(pool::Pool& pool, bool only_look) : pool_(pool), only_look_(only_look) {}
  bool keeps(std::uint64_t token) {
    const auto known = known_.find(token);
    if (known != known_.end()) return known->second;
    return known_[token] = only_look_ ? pool_.alive(token) : !pool_.reclaim().may_reclaim(token);
  }

 private:
  pool::Pool& pool_;
  bool only_look_;
  std::unordered_map<std::uint64_t, bool> known_;
};

bool dies_with_owner(const ExtentHeader& extent) {
  return extent.lifetime == Lifetime::process || extent.slot == pending_slot;
}

bool is_needed(const ExtentHeader& extent, bool named, Living& living) {
  // Also asked for extents without a name: the owner's death must be recorded before its space is
  // given away.
  const bool outlives = !dies_with_owner(extent) || living.keeps(extent.owner);
  return outlives && (named || extent.slot == pending_slot);
}

Result<std::vector<ExtentHeader>> used_extents(const Space& space) {
  std::vector<ExtentHeader> used;
  const auto walked = space.for_each([&](const ExtentHeader& extent) {
    if (extent.state == ExtentState::used) used.push_back(extent);
  });
  if (!walked) return unexpected(walked.error());
  return used;
}

}  // namespace

bool Arena::Impl::is_reachable(const ExtentHeader& extent) const {
  const auto slot = table.read(extent.slot);
  return slot && slot->entry.offset == extent.offset + line_bytes &&
         slot->entry.generation == extent.generation;
}

void Arena::Impl::erase(Space& space, const TableEntry& entry) {
  const SlotEntry& slot = entry.slot.entry;
  forget(slot.generation);
  table.remove(entry.index);
  const auto extent = space.peek(slot.offset - line_bytes);
  if (extent && extent->state == ExtentState::used && extent->slot == entry.index &&
      extent->generation == slot.generation) {
    space.free(*extent);
  } else {
    base::log(base::Level::warn,
              "object \"{}\" had no extent at pool offset {}: the arena is damaged",
              entry.slot.name_view(), slot.offset - line_bytes);
  }
}

Result<Arena::Reclaimed> Arena::Impl::reclaim(Space& space, bool dry_run) {
  Reclaimed reclaimed;
  const auto used = PENSTOCK_TRY(used_extents(space));
  Living living(pool, dry_run);
  // Backwards, so that each extent joins the free one that the previous step left behind it.
  for (auto extent = used.rbegin(); extent != used.rend(); ++extent) {
    const bool named = is_reachable(*extent);
    if (is_needed(*extent, named, living)) continue;
    reclaimed.objects += named;
    reclaimed.bytes += extent->bytes;
    if (dry_run) continue;
    if (named) table.remove(extent->slot);
    space.free(*extent);
  }
  if (dry_run) return reclaimed;
  PENSTOCK_TRY(space.end_quarantines());
  return reclaimed;
}

Arena::Reclaimed Arena::Impl::free_owned(const std::set<std::uint64_t>& tokens) {
  Reclaimed freed;
  auto space = this->space();
  const auto used =
      space ? used_extents(*space) : Result<std::vector<ExtentHeader>>(unexpected(space.error()));
  if (!used) {
    base::log(base::Level::warn, "objects of a dead process stay: {}", used.error().message);
    return freed;
  }
  for (auto extent = used->rbegin(); extent != used->rend(); ++extent) {
    if (tokens.count(extent->owner) == 0 || !dies_with_owner(*extent)) continue;
    if (is_reachable(*extent)) {
      table.remove(extent->slot);
      ++freed.objects;
    }
    freed.bytes += extent->bytes;
    space->free(*extent);
  }
  return freed;
}

Result<Arena::Reclaimed> Arena::Impl::reap(pool::Reclaim::Among among) {
  Reclaimed total;
  const auto free = [&](const std::set<std::uint64_t>& tokens) {
    const auto freed = free_owned(tokens);
    total.objects += freed.objects;
    total.bytes += freed.bytes;
  };
  const auto reaped = pool.reclaim().reap(free, among);
  if (!reaped) return unexpected(reaped.error());
  total.processes = *reaped;
  return total;
}

/// Writes back users' unpublished stores to an object of this process; they are at the device once
/// the pool's lock is taken, which includes a load fence.
void Arena::Impl::publish_stores(std::uint64_t generation, std::uint32_t index) const {
  const auto slot = table.read(index);
  if (!slot || slot->entry.generation != generation) return;
  region.invalidate(slot->entry.offset, slot->entry.bytes);
}

void Arena::Impl::free_own() {
  std::map<std::uint64_t, std::uint32_t> mine;
  {
    const std::lock_guard hold(own_mutex);
    mine = own;
  }
  if (mine.empty()) return;
  for (const auto& [generation, index] : mine) publish_stores(generation, index);
  const auto guard = pool.lock();
  auto space = guard ? this->space() : Result<Space>(unexpected(guard.error()));
  if (!space) {
    base::log(base::Level::warn, "{} objects of this process stay until penstock pool gc: {}",
              mine.size(), space.error().message);
    return;
  }
  std::vector<TableEntry> still_mine;
  for (const auto& [generation, index] : mine) {
    const auto slot = table.read(index);
    if (!slot || slot->entry.generation != generation) continue;
    const auto extent = space->peek(slot->entry.offset - line_bytes);
    // Another process may have changed its lifetime, or passed it on.
    const bool kept =
        extent && (extent->lifetime != Lifetime::process || extent->owner != pool.token());
    if (!kept) still_mine.push_back(TableEntry{index, *slot});
  }
  if (still_mine.empty()) return;
  pool.reclaim().record_unknown_deaths();  // liveness was not asked for
  for (const TableEntry& entry : still_mine) erase(*space, entry);
}

Result<Arena::Reclaimed> Arena::Impl::reclaim_rest(bool dry_run) {
  const auto guard = PENSTOCK_TRY(pool.lock());
  auto space = PENSTOCK_TRY(this->space());
  return reclaim(space, dry_run);
}

Result<void> Arena::Impl::end_quarantines() {
  flusher.finish();
  if (quarantine().bytes == 0) return {};
  const auto guard = PENSTOCK_TRY(pool.lock());
  auto space = PENSTOCK_TRY(this->space());
  return space.end_quarantines();
}

/// All but the headers, which form the chain.
Result<std::uint64_t> Arena::Impl::shrink() {
  if (!pool.device().grows()) return 0;
  const auto guard = PENSTOCK_TRY(pool.lock());
  const auto space = PENSTOCK_TRY(this->space());
  std::uint64_t given = 0;
  const auto walked = space.for_each([&](const ExtentHeader& extent) {
    if (extent.state == ExtentState::free)
      given += pool.device().give_back(extent.offset + line_bytes, extent.bytes - line_bytes);
  });
  if (!walked) return unexpected(walked.error());
  return given;
}

Result<Arena::Reclaimed> Arena::collect(bool dry_run) {
  Reclaimed total;
  if (dry_run) {
    for (const auto& process : impl_->pool.members().processes()) {
      total.processes += process.attached && !process.alive;
    }
  } else {
    total = PENSTOCK_TRY(impl_->reap(pool::Reclaim::Among::all));
  }
  const auto rest = PENSTOCK_TRY(impl_->reclaim_rest(dry_run));
  total.objects += rest.objects;
  total.bytes += rest.bytes;
  if (dry_run) return total;
  PENSTOCK_TRY(impl_->end_quarantines());
  total.bytes_to_system = PENSTOCK_TRY(impl_->shrink());
  return total;
}

}  // namespace penstock::arena
