// Objects that one process of a node makes for all of them (Arena::create_shared): where all start
// at once, one turn of the pool's lock for each would make them a queue. Each has its owner from
// the beginning, so that it is freed as if that process had made it. A crash in between leaves what
// one in creation.cpp leaves: space without a name.
#include <set>

#include "arena/impl.hpp"
#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::arena {

namespace {

/// Others get theirs from a free piece of the pool that is three quarters of it: where there is
/// less room each takes what it needs, when it needs it. All of one turn get a part of it at most,
/// and the piece is looked for in a few steps.
constexpr std::uint64_t least_free_quarters = 3, largest_part = 16;
constexpr std::uint32_t max_headers = 64;

/// Shares that have no name yet, and where in the name table each has room for it.
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

/// Those for which there is room: the others make theirs when they need it. In a pool of several
/// parts each lies on its own part, else all in a row.
std::vector<ExtentHeader> find_room(Space& space, const ExtentHeader& in,
                                    const pool::Striping& striping, SpaceRequest request,
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
  if (pool.grows())
    request.reserve = [this](std::uint64_t offset, std::uint64_t bytes) {
      return pool.reserve(offset, bytes);
    };
  const auto extents = find_room(space, *in, pool.info().striping, request, row);
  if (extents.empty()) return;
  std::vector<NameTable::Wanted> wanted;
  for (std::size_t i = 0; i < extents.size(); ++i)
    wanted.push_back({extents[i].slot, row.shares[i].name, entry_of(extents[i], mine.bytes)});
  table.put_each(wanted);
  // Either the owner that wants its share no more finds the name, or late() finds that.
  pool.memory().full_fence();
  const auto late = with.late();
  for (const auto& [index, name, entry] : wanted) {
    if (late.count(entry.owner) == 0) continue;
    if (const auto slot = table.read(index)) erase(space, TableEntry{index, *slot});
  }
}

/// What another has made for this process.
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
