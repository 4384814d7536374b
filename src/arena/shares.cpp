// Objects that one process of a node makes for all of them (Arena::create_shared): if processes
// that start together each took the pool's lock, they would queue for it. Each object has its owner
// from the beginning, so that it is freed as if that process had made it. A crash in between
// leaves, like one in creation.cpp, space without a name.
#include <set>

#include "arena/impl.hpp"
#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::arena {

namespace {

/// Others get a share only from a free extent of three quarters of the pool: if there is less room,
/// each process allocates its own when it needs it. All shares of one turn take at most this part
/// of the extent, and the search for it looks at a few headers only.
constexpr std::uint64_t least_free_quarters = 3, largest_part = 16;
constexpr std::uint32_t max_headers = 64;

/// Shares that have no name yet, and the slot of the name table for each.
struct Row {
  std::vector<Share> shares;
  std::vector<Tenant> tenants;
};

Row without_names(const NameTable& table, const std::vector<Share>& shares, std::uint64_t most) {
  std::vector<std::string_view> names;
  for (const Share& share : shares) names.push_back(share.name);
  const auto lookups = table.find_each(names);
  Row row;
  std::set<std::uint32_t> taken;
  for (std::size_t i = 0; i < shares.size() && row.shares.size() < most; ++i) {
    const auto& free = lookups[i].first_free;
    if (lookups[i].found || !free || !taken.insert(*free).second) continue;
    row.shares.push_back(shares[i]);
    row.tenants.push_back({*free, shares[i].owner});
  }
  return row;
}

/// Returns extents for the shares for which there is room: the other processes make theirs when
/// they need it. In a pool of several parts each lies on its own part, else all lie in a row.
std::vector<ExtentHeader> find_room(Space& space, const ExtentHeader& in,
                                    const device::Striping& striping, SpaceRequest request,
                                    const Row& row) {
  if (striping.parts < 2)
    return space.allocate_row(in, request, row.tenants).value_or(std::vector<ExtentHeader>{});
  std::vector<ExtentHeader> extents;
  request.max_headers = max_headers;
  for (std::size_t i = 0; i < row.shares.size(); ++i) {
    request.slot = row.tenants[i].slot;
    request.owner = row.tenants[i].owner;
    request.on_part = SpaceRequest::OnPart{striping, row.shares[i].part % striping.parts};
    const auto extent = space.allocate(request);
    if (!extent) break;
    extents.push_back(*extent);
  }
  return extents;
}

}  // namespace

void Arena::Impl::make_shares(Space& space, const Wanted& mine, const SharedWith& with) {
  const std::uint64_t whole = geometry.extents_end - geometry.extents_start;
  SpaceRequest request{
      .bytes = mine.bytes, .alignment = mine.options.alignment, .lifetime = Lifetime::process};
  const auto in = space.find_free(whole / 4 * least_free_quarters, max_headers);
  if (!in) return;
  const Row row =
      without_names(table, with.others(), whole / largest_part / Space::row_step(request));
  if (row.shares.empty()) return;
  if (pool.device().grows())
    request.reserve = [this](std::uint64_t offset, std::uint64_t bytes) {
      return pool.device().reserve(offset, bytes);
    };
  const auto extents = find_room(space, *in, pool.info().striping, request, row);
  if (extents.empty()) return;
  std::vector<NameTable::Wanted> wanted;
  for (std::size_t i = 0; i < extents.size(); ++i)
    wanted.push_back({extents[i].slot, row.shares[i].name, entry_of(extents[i], mine.bytes)});
  table.put_each(wanted);
  // Either an owner that no longer needs its share finds the name, or late() finds that owner.
  pool.memory().full_fence();
  const auto late = with.late();
  for (const auto& [index, name, entry] : wanted) {
    if (late.count(entry.owner) == 0) continue;
    if (const auto slot = table.read(index)) erase(space, TableEntry{index, *slot});
  }
}

/// Takes over a share that another process has made for this one.
Result<Object> Arena::Impl::adopt(const std::optional<TableEntry>& found, std::string_view name) {
  const bool is_own = found && found->slot.entry.lifetime == Lifetime::process &&
                      found->slot.entry.owner == pool.token();
  if (!is_own) return fail(ErrorCode::not_found, "no object \"{}\" of this process", name);
  remember(found->slot.entry.generation, found->index);
  return to_object(*found);
}

Result<Object> Arena::Impl::create_shared(const Wanted& mine, const SharedWith& with) {
  std::optional<TableEntry> found;
  const auto is_there = [&] {
    found = table.find(mine.name).found;
    return found.has_value();
  };
  const auto adopt_it = [&]() -> Result<Object> {
    auto object = PENSTOCK_TRY(adopt(found, mine.name));
    if (object.bytes == mine.bytes && object.offset % mine.options.alignment == 0) return object;
    return fail(ErrorCode::already_exists, "object \"{}\" exists with {} at {}, asked for {}",
                mine.name, base::format_bytes(object.bytes), object.offset,
                base::format_bytes(mine.bytes));
  };
  if (is_there()) return adopt_it();
  const auto guard = pool.lock(mine.options.timeout_ns, is_there);
  if (!guard && guard.error().code == ErrorCode::already_exists) return adopt_it();
  if (!guard) return unexpected(guard.error());
  if (is_there()) return adopt_it();
  auto space = PENSTOCK_TRY(this->space());
  free_unnamed(space);
  auto made = make(space, mine);
  if (made) make_shares(space, mine, with);
  return made;
}

Result<Object> Arena::create_shared(const Share& mine, std::uint64_t bytes,
                                    const CreateOptions& options, const SharedWith& with) {
  Wanted wanted{mine.name, bytes, options};
  wanted.options.lifetime = Lifetime::process;
  wanted.options.zero = false;
  wanted.options.near = mine.part;
  PENSTOCK_TRY(check_creation(wanted));
  return impl_->create_shared(wanted, with);
}

Result<Object> Arena::adopt(std::string_view name) {
  return impl_->adopt(impl_->table.find(name).found, name);
}

}  // namespace penstock::arena
