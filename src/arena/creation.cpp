// Makes objects, in this order, so that a crash in between loses only space, which reclaim() finds:
// (1) an extent is marked used for the slot; (2) contents are zeroed and published; (3) the slot is
// published.
#include <algorithm>

#include "arena/impl.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "pool/flush_table.hpp"
#include "pool/reclaim.hpp"

namespace penstock::arena {

namespace {

/// Zeroing more than this under the lock would block others for milliseconds.
constexpr std::uint64_t unlocked_zeroing_bytes = 16 << 20;
/// Each living node flushes at its heartbeats, which come at least once a second.
constexpr std::uint64_t quarantine_wait_ns = 5'000'000'000;

}  // namespace

void Arena::Impl::remember(std::uint64_t generation, std::uint32_t slot) {
  const std::lock_guard hold(own_mutex);
  own.emplace(generation, slot);
}

void Arena::Impl::forget(std::uint64_t generation) {
  const std::lock_guard hold(own_mutex);
  own.erase(generation);
}

Result<Claim> Arena::Impl::claim_name(Space& space, const Wanted& wanted) {
  auto lookup = table.find(wanted.name);
  if (lookup.found) {
    const SlotEntry& entry = lookup.found->slot.entry;
    // The header decides: the lifetime may have changed since the name was published.
    const auto extent = space.peek(entry.offset - line_bytes);
    const bool may_be_dead = extent && extent->lifetime == Lifetime::process;
    if (!may_be_dead || !pool.reclaim().may_reclaim(extent->owner)) {
      if (wanted.options.open_existing && entry.bytes == wanted.bytes) {
        return Claim{lookup.found->index, to_object(*lookup.found)};
      }
      return fail(ErrorCode::already_exists, "object \"{}\" exists with {}, asked for {}",
                  wanted.name, base::format_bytes(entry.bytes), base::format_bytes(wanted.bytes));
    }
    erase(space, *lookup.found);
    lookup = table.find(wanted.name);
  }
  if (!lookup.first_free) {
    PENSTOCK_TRY(reclaim(space, false));
    lookup = table.find(wanted.name);
  }
  if (lookup.first_free) return Claim{*lookup.first_free, std::nullopt};
  return fail(
      ErrorCode::no_slots,
      "no room for the name \"{}\": its buckets on all {} levels are taken (the table has {} "
      "slots); free objects: penstock pool gc {}, or make a larger pool",
      wanted.name, table_levels, geometry.slots, base::shell_quote(pool.info().spec));
}

Result<ExtentHeader> Arena::Impl::allocate(Space& space, const Wanted& wanted, std::uint32_t slot) {
  const bool owned = slot == pending_slot || wanted.options.lifetime == Lifetime::process;
  SpaceRequest request{wanted.bytes, wanted.options.alignment, slot, wanted.options.lifetime,
                       owned ? pool.token() : 0};
  const device::Striping& striping = pool.info().striping;
  const bool near = !wanted.options.part && wanted.options.near && striping.parts > 1 &&
                    wanted.bytes <= striping.stripe_bytes;
  if (wanted.options.part) request.on_part = SpaceRequest::OnPart{striping, *wanted.options.part};
  if (near) request.on_part = SpaceRequest::OnPart{striping, *wanted.options.near % striping.parts};
  bool grown = true;  // false: a larger pool would not help, for the place asked for has no room
  if (pool.device().grows()) {
    request.reserve = [this, &grown](std::uint64_t offset, std::uint64_t bytes) {
      auto reserved = pool.device().reserve(offset, bytes);
      grown = reserved.has_value();
      return reserved;
    };
  }
  auto extent = space.allocate(request);
  if (near && !extent && extent.error().code == ErrorCode::no_space) {
    request.on_part.reset();
    extent = space.allocate(request);
  }
  if (!extent && extent.error().code == ErrorCode::no_space) {
    PENSTOCK_TRY(reclaim(space, false));
    extent = space.allocate(request);
  }
  if (!extent && extent.error().code == ErrorCode::no_space) {
    if (!grown)
      return fail(ErrorCode::no_space, "no space for object \"{}\": {}", wanted.name,
                  extent.error().message);
    return fail(ErrorCode::no_space, "no space for object \"{}\": {}{}; {}", wanted.name,
                extent.error().message, quarantine_text(space),
                pool::more_space_text(pool.info(), wanted.bytes));
  }
  return extent;
}

std::string Arena::Impl::quarantine_text(const Space& space) const {
  if (space.quarantined_bytes() == 0) return "";
  return fmt::format(
      "; {} are in quarantine until each host where a process died has flushed its caches: on it, "
      "run penstock pool gc {} --yes; which hosts: penstock pool info {}",
      base::format_bytes(space.quarantined_bytes()), base::shell_quote(pool.info().spec),
      base::shell_quote(pool.info().spec));
}

// Space in quarantine is freed at the next heartbeats of the nodes that it waits for.
Result<Object> Arena::Impl::create_when_flushed(const Wanted& wanted) {
  auto made = create_now(wanted);
  if (made || made.error().code != ErrorCode::no_space || wanted.options.timeout_ns != 0 ||
      pool.reclaim().flushes().clock().last_death == 0)
    return made;
  flusher.finish();
  base::Waiter waiter("space in quarantine", quarantine_wait_ns, {},
                      base::WaitPolicy{.spins = 0, .yields = 0, .sleep_ns = 10'000'000});
  for (;;) {
    made = create_now(wanted);
    if (made || made.error().code != ErrorCode::no_space) return made;
    const Quarantine left = quarantine();
    if (left.waits_for.empty()) return create_now(wanted);  // the quarantine has just ended
    if (!left.ends_by_itself() || !waiter.pause()) return made;
  }
}

Result<Object> Arena::Impl::create_now(const Wanted& wanted) {
  const bool large = wanted.options.zero && wanted.bytes >= unlocked_zeroing_bytes;
  return large ? create_large(wanted) : create(wanted);
}

/// A process that sees the name sees zeros: NameTable::put publishes its entry after them.
void Arena::Impl::publish_zeros(const ExtentHeader& extent) const {
  region.publish_zeros(extent.offset + line_bytes, extent.bytes - line_bytes);
}

SlotEntry entry_of(const ExtentHeader& extent, std::uint64_t bytes) {
  SlotEntry entry{};
  entry.lifetime = extent.lifetime;
  entry.offset = extent.offset + line_bytes;
  entry.bytes = bytes;
  entry.owner = extent.owner;
  entry.generation = extent.generation;
  return entry;
}

Object Arena::Impl::publish_name(const Wanted& wanted, const ExtentHeader& extent) {
  const SlotEntry entry = entry_of(extent, wanted.bytes);
  table.put(extent.slot, wanted.name, entry);
  if (extent.lifetime == Lifetime::process) remember(extent.generation, extent.slot);
  return {std::string(wanted.name), entry.offset,     entry.bytes,
          region.at(entry.offset),  entry.generation, extent.slot};
}

/// False if this process was declared dead meanwhile.
bool Arena::Impl::is_still(const Space& space, const ExtentHeader& extent) const {
  const auto now = space.peek(extent.offset);
  return now && now->state == ExtentState::used && now->generation == extent.generation &&
         now->owner == extent.owner;
}

void Arena::Impl::free_unnamed(Space& space) {
  const std::lock_guard hold(own_mutex);
  for (const ExtentHeader& extent : unnamed)
    if (is_still(space, extent)) space.free(extent);
  unnamed.clear();
}

Result<Object> Arena::Impl::create(const Wanted& wanted) {
  const auto guard = PENSTOCK_TRY(pool.lock(wanted.options.timeout_ns));
  auto space = PENSTOCK_TRY(this->space());
  free_unnamed(space);
  return make(space, wanted);
}

Result<Object> Arena::Impl::make(Space& space, const Wanted& wanted) {
  const auto claim = PENSTOCK_TRY(claim_name(space, wanted));
  if (claim.existing) return *claim.existing;
  const auto extent = PENSTOCK_TRY(allocate(space, wanted, claim.slot));
  // As for zeros: NameTable::put publishes the entry after them.
  if (wanted.options.contents != nullptr)
    region.publish_bulk(extent.offset + line_bytes, wanted.options.contents, wanted.bytes);
  else if (wanted.options.zero)
    publish_zeros(extent);
  return publish_name(wanted, extent);
}

Result<Object> Arena::Impl::create_large(const Wanted& wanted) {
  ExtentHeader extent;
  {
    const auto guard = PENSTOCK_TRY(pool.lock(wanted.options.timeout_ns));
    auto space = PENSTOCK_TRY(this->space());
    free_unnamed(space);
    const auto claim = PENSTOCK_TRY(claim_name(space, wanted));
    if (claim.existing) return *claim.existing;
    extent = PENSTOCK_TRY(allocate(space, wanted, pending_slot));
  }
  publish_zeros(extent);
  const auto guard = pool.lock(wanted.options.timeout_ns);
  if (!guard) {
    const std::lock_guard hold(own_mutex);
    unnamed.push_back(extent);
    return unexpected(guard.error());
  }
  auto space = this->space();
  if (!space) return unexpected(space.error());
  if (!is_still(*space, extent)) {
    return fail(
        ErrorCode::unavailable,
        "space for object \"{}\" was reclaimed: others declared this process dead; for a longer "
        "lease set PENSTOCK_LEASE_MS",
        wanted.name);
  }
  const auto claim = claim_name(*space, wanted);
  if (!claim || claim->existing) {
    space->free(extent);
    return claim ? Result<Object>(*claim->existing) : unexpected(claim.error());
  }
  return publish_name(wanted, space->assign(extent, claim->slot));
}

}  // namespace penstock::arena
