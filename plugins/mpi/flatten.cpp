#include "flatten.hpp"

#include <algorithm>
#include <map>

#include "base/format.hpp"
#include "pmpi.hpp"
#include "type_contents.hpp"

namespace penstock::mpi {

namespace {

/// Limit of leaves in one type. Each takes 24 bytes, so the computation takes at most 768 MiB.
constexpr std::size_t max_leaves = std::size_t{1} << 25;

struct Basic {
  Handle type = 0;
  std::uint64_t size = 0;
  std::int64_t extent = 0;
  std::vector<Extent> extents;  // one, at 0, of size bytes, unless padded
  bool padded() const { return static_cast<std::int64_t>(size) != extent; }
};

/// `count` elements of a predefined type, side by side.
struct Leaf {
  const Basic* basic;
  std::int64_t at;
  std::uint64_t count;
  std::int64_t end() const { return at + static_cast<std::int64_t>(count) * basic->extent; }
};

/// A type during flattening: the list of its leaves.
struct Flat {
  std::vector<Leaf> leaves;
  std::int64_t lb = 0;
  std::int64_t extent = 0;
};

/// The predefined types found in one flattening; leaves point to them.
using Basics = std::map<Handle, Basic>;

Result<void> add_leaf(Flat* to, const Leaf& leaf) {
  if (!to->leaves.empty()) {
    Leaf& last = to->leaves.back();
    if (last.basic == leaf.basic && last.end() == leaf.at) {
      last.count += leaf.count;
      return {};
    }
  }
  if (to->leaves.size() >= max_leaves) {
    return unexpected(too_many_pieces());
  }
  to->leaves.push_back(leaf);
  return {};
}

/// Appends `count` elements of `child`, starting at byte `at`, one extent apart.
Result<void> append(Flat* to, const Flat& child, std::int64_t at, Count count) {
  if (child.leaves.empty() || count <= 0) return {};
  const Leaf& first = child.leaves.front();
  if (child.leaves.size() == 1 && first.end() - first.at == child.extent) {
    const auto all = first.count * static_cast<std::uint64_t>(count);
    return add_leaf(to, {first.basic, at + first.at, all});
  }
  for (Count n = 0; n < count; ++n, at += child.extent) {
    for (const Leaf& leaf : child.leaves) {
      if (auto added = add_leaf(to, {leaf.basic, at + leaf.at, leaf.count}); !added) return added;
    }
  }
  return {};
}

/// The indices of one dimension that belong to the type: blocks of `length` indices, `stride`
/// apart.
struct Dimension {
  Count size = 0;   // length of the whole array in this dimension
  Count first = 0;  // index
  Count length = 0;
  Count stride = 1;
  Count end = 0;  // one past the last index
};

/// Appends all elements of an array of `child` whose indices lie in each dimension's blocks; the
/// first dimension varies fastest. This is the layout of subarrays and distributed arrays.
Result<void> append_grid(Flat* to, const Flat& child, const std::vector<Dimension>& dimensions,
                         std::size_t level, std::int64_t at) {
  const Dimension& here = dimensions[level];
  std::int64_t step = child.extent;
  for (std::size_t d = 0; d < level; ++d) step *= dimensions[d].size;
  for (Count block = here.first; block < here.end; block += here.stride) {
    const Count end = std::min(block + here.length, here.end);
    if (level == 0) {
      if (auto done = append(to, child, at + block * step, end - block); !done) return done;
      continue;
    }
    for (Count index = block; index < end; ++index) {
      auto done = append_grid(to, child, dimensions, level - 1, at + index * step);
      if (!done) return done;
    }
  }
  return {};
}

Result<void> append_array(Flat* to, const Flat& child, std::vector<Dimension> dimensions) {
  if (child.leaves.empty() || dimensions.empty()) return {};
  for (const Dimension& dimension : dimensions) {
    if (dimension.first >= dimension.end || dimension.length <= 0) return {};
  }
  return append_grid(to, child, dimensions, dimensions.size() - 1, 0);
}

Result<void> subarray(Flat* to, const Flat& child, TypeContents* contents) {
  const int n = contents->number();
  const auto sizes = contents->counts(n);
  const auto parts = contents->counts(n);
  const auto starts = contents->counts(n);
  const bool fortran = contents->number() == constants().order_fortran;
  std::vector<Dimension> dimensions;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    dimensions.push_back(
        {sizes[d], starts[d], parts[d], std::max<Count>(sizes[d], 1), starts[d] + parts[d]});
  }
  if (!fortran) std::reverse(dimensions.begin(), dimensions.end());
  return append_array(to, child, std::move(dimensions));
}

Result<void> darray(Flat* to, const Flat& child, TypeContents* contents) {
  contents->number();  // processes
  int rank = contents->number();
  const int n = contents->number();
  const auto dimension_count = static_cast<std::size_t>(n);
  const auto sizes = contents->counts(n);
  std::vector<int> distributions(dimension_count);
  std::vector<int> arguments(dimension_count);
  std::vector<int> processes(dimension_count);
  for (int& value : distributions) value = contents->number();
  for (int& value : arguments) value = contents->number();
  for (int& value : processes) value = contents->number();
  const bool fortran = contents->number() == constants().order_fortran;

  // The grid of processes is always in C's order.
  std::vector<Dimension> dimensions(dimension_count);
  for (std::size_t d = dimension_count; d-- > 0;) {
    const Count all = processes[d];
    const Count mine = rank % processes[d];
    rank /= processes[d];
    Count block = arguments[d];
    if (distributions[d] == constants().distribute_none) {
      block = sizes[d];
    } else if (arguments[d] == constants().distribute_dflt_darg) {
      const bool by_block = distributions[d] == constants().distribute_block;
      block = by_block ? (sizes[d] + all - 1) / all : 1;
    }
    block = std::max<Count>(block, 1);
    dimensions[d] = {sizes[d], mine * block, block, all * block, sizes[d]};
  }
  if (!fortran) std::reverse(dimensions.begin(), dimensions.end());
  return append_array(to, child, std::move(dimensions));
}

std::uint64_t size_of(Handle type) {
  Count size = 0;
  if (pmpi().Type_size_c != nullptr) {
    pmpi().Type_size_c(type, &size);
  } else if (pmpi().Type_size_x != nullptr) {
    pmpi().Type_size_x(type, &size);
  } else {
    int narrow = 0;
    pmpi().Type_size(type, &narrow);
    size = narrow;
  }
  return static_cast<std::uint64_t>(size);
}

void read_extent(Handle type, std::int64_t* lb, std::int64_t* extent) {
  if (pmpi().Type_get_extent_c != nullptr) {
    pmpi().Type_get_extent_c(type, lb, extent);
  } else {
    pmpi().Type_get_extent(type, lb, extent);
  }
}

/// The extents of a pair type's value and index, as C lays out such structures.
std::vector<Extent> extents_of_pair(std::uint64_t value, std::uint64_t index) {
  const std::uint64_t at = (value + index - 1) / index * index;
  if (at == value) return {{0, value + index}};
  return {{0, value}, {static_cast<std::int64_t>(at), index}};
}

bool is_leaf(int combiner) {
  const Constants& c = constants();
  return combiner == c.combiner_named || combiner == c.combiner_f90_real ||
         combiner == c.combiner_f90_complex || combiner == c.combiner_f90_integer ||
         (combiner != absent && combiner == c.combiner_value_index);
}

Result<Basic> basic_of(Handle type, const Envelope& envelope) {
  Basic made;
  made.type = type;
  made.size = size_of(type);
  std::int64_t lb = 0;
  read_extent(type, &lb, &made.extent);
  made.extents = {{0, made.size}};
  if (!made.padded()) return made;
  if (envelope.combiner == constants().combiner_value_index) {
    auto contents = PENSTOCK_TRY(TypeContents::of(type, envelope));
    made.extents = extents_of_pair(size_of(contents.type(0)), size_of(contents.type(1)));
  } else if (made.size > sizeof(int)) {
    made.extents = extents_of_pair(made.size - sizeof(int), sizeof(int));
  }
  return made;
}

Result<Flat> flatten_inner(Handle type, Basics* basics);

/// Flattens a constructor with blocks of `lengths` elements at displacements in bytes or extents.
Result<void> blocks(Flat* to, const Flat& child, const std::vector<Count>& lengths,
                    const std::vector<Count>& displacements, std::int64_t unit) {
  for (std::size_t n = 0; n < displacements.size(); ++n) {
    const Count length = lengths[lengths.size() == 1 ? 0 : n];
    if (auto done = append(to, child, displacements[n] * unit, length); !done) return done;
  }
  return {};
}

Result<void> vector(Flat* to, const Flat& child, TypeContents* contents, bool in_bytes) {
  const Count count = contents->count();
  const Count length = contents->count();
  const Count stride = in_bytes ? contents->address() : contents->count() * child.extent;
  for (Count n = 0; n < count; ++n) {
    if (length <= 0 || child.leaves.empty()) break;
    if (auto done = append(to, child, n * stride, length); !done) return done;
  }
  return {};
}

Result<void> structure(Flat* to, TypeContents* contents, Basics* basics) {
  const Count count = contents->count();
  const auto lengths = contents->counts(count);
  const auto displacements = contents->addresses(count);
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    auto child = PENSTOCK_TRY(flatten_inner(contents->type(n), basics));
    if (auto done = append(to, child, displacements[n], lengths[n]); !done) return done;
  }
  return {};
}

/// Flattens a constructor that has one inner type.
Result<void> of_child(Flat* to, const Flat& child, TypeContents* contents, int combiner) {
  const Constants& c = constants();
  // The extent of a resized type is read from the MPI.
  if (combiner == c.combiner_dup || combiner == c.combiner_resized) return append(to, child, 0, 1);
  if (combiner == c.combiner_contiguous) return append(to, child, 0, contents->count());
  if (combiner == c.combiner_vector) return vector(to, child, contents, false);
  if (combiner == c.combiner_hvector || combiner == c.combiner_hvector_integer) {
    return vector(to, child, contents, true);
  }
  if (combiner == c.combiner_subarray) return subarray(to, child, contents);
  if (combiner == c.combiner_darray) return darray(to, child, contents);
  const Count count = contents->count();
  if (combiner == c.combiner_indexed) {
    const auto lengths = contents->counts(count);
    return blocks(to, child, lengths, contents->counts(count), child.extent);
  }
  if (combiner == c.combiner_hindexed || combiner == c.combiner_hindexed_integer) {
    const auto lengths = contents->counts(count);
    return blocks(to, child, lengths, contents->addresses(count), 1);
  }
  if (combiner == c.combiner_indexed_block) {
    const std::vector<Count> length = {contents->count()};
    return blocks(to, child, length, contents->counts(count), child.extent);
  }
  if (combiner == c.combiner_hindexed_block) {
    const std::vector<Count> length = {contents->count()};
    return blocks(to, child, length, contents->addresses(count), 1);
  }
  return fail(ErrorCode::mismatch,
              "this MPI has datatypes made in a way that Penstock does not know (combiner {}): {}",
              combiner, library().version);
}

Result<Flat> flatten_inner(Handle type, Basics* basics) {
  Flat made;
  const auto envelope = PENSTOCK_TRY(envelope_of(type));
  read_extent(type, &made.lb, &made.extent);
  if (is_leaf(envelope.combiner)) {
    auto [at, added] = basics->try_emplace(type);
    if (added) {
      at->second = PENSTOCK_TRY(basic_of(type, envelope));
    }
    if (at->second.size != 0) made.leaves.push_back({&at->second, 0, 1});
    return made;
  }
  auto contents = PENSTOCK_TRY(TypeContents::of(type, envelope));
  const int combiner = envelope.combiner;
  if (combiner == constants().combiner_struct || combiner == constants().combiner_struct_integer) {
    PENSTOCK_TRY(structure(&made, &contents, basics));
    return made;
  }
  auto child = PENSTOCK_TRY(flatten_inner(contents.type(0), basics));
  PENSTOCK_TRY(of_child(&made, child, &contents, combiner));
  return made;
}

void add_extent(std::vector<Extent>* extents, std::int64_t at, std::uint64_t bytes) {
  if (!extents->empty()) {
    Extent& last = extents->back();
    if (last.at + static_cast<std::int64_t>(last.bytes) == at) {
      last.bytes += bytes;
      return;
    }
  }
  extents->push_back({at, bytes});
}

void take_basic(Layout* layout, const std::vector<Leaf>& leaves) {
  layout->basic = constants().datatype_null;
  if (leaves.empty()) return;
  const Basic& basic = *leaves.front().basic;
  for (const Leaf& leaf : leaves) {
    if (leaf.basic != &basic) return;
  }
  layout->basic = basic.type;
  layout->basic_size = basic.size;
  layout->basic_extent = basic.extent;
  layout->basic_padded = basic.padded();
  for (const Leaf& leaf : leaves) layout->basic_count += leaf.count;
  if (!basic.padded()) return;
  layout->basic_extents = basic.extents;
  for (const Leaf& leaf : leaves) layout->runs.push_back({leaf.at, leaf.count});
}

Result<Layout> layout_from(const Flat& flat) {
  Layout made;
  made.lb = flat.lb;
  made.extent = flat.extent;
  for (const Leaf& leaf : flat.leaves) {
    const Basic& basic = *leaf.basic;
    made.size += leaf.count * basic.size;
    if (!basic.padded()) {
      add_extent(&made.extents, leaf.at, leaf.count * basic.size);
      continue;
    }
    for (std::uint64_t n = 0; n < leaf.count; ++n) {
      const std::int64_t at = leaf.at + static_cast<std::int64_t>(n) * basic.extent;
      for (const Extent& piece : basic.extents)
        add_extent(&made.extents, at + piece.at, piece.bytes);
      if (made.extents.size() > max_leaves) {
        return unexpected(too_many_pieces());
      }
    }
  }
  made.extents.shrink_to_fit();
  if (!made.extents.empty()) made.true_lb = INT64_MAX;
  if (!made.extents.empty()) made.true_ub = INT64_MIN;
  for (const Extent& piece : made.extents) {
    made.true_lb = std::min(made.true_lb, piece.at);
    made.true_ub = std::max(made.true_ub, piece.at + static_cast<std::int64_t>(piece.bytes));
  }
  const bool whole = made.extents.size() == 1 && made.extents[0].at == 0 &&
                     static_cast<std::int64_t>(made.extents[0].bytes) == made.extent;
  made.contiguous = made.size == 0 || whole;
  take_basic(&made, flat.leaves);
  return made;
}

}  // namespace

Measures measures_of(Handle type) {
  Measures found{.size = size_of(type), .lb = 0, .extent = 0};
  read_extent(type, &found.lb, &found.extent);
  return found;
}

Error too_many_pieces() {
  return {
      ErrorCode::no_space,
      fmt::format("a datatype has more than {} separate blocks: use a smaller type and a larger "
                  "count",
                  max_leaves)};
}

Result<bool> is_predefined(Handle type) {
  const auto envelope = PENSTOCK_TRY(envelope_of(type));
  return is_leaf(envelope.combiner);
}

Result<Layout> flatten(Handle type) {
  Basics basics;
  const auto flat = PENSTOCK_TRY(flatten_inner(type, &basics));
  auto layout = layout_from(flat);
  if (layout && layout->size != size_of(type)) {
    return fail(ErrorCode::internal, "a datatype of {} bytes was taken for one of {} (MPI: {})",
                size_of(type), layout->size, library().version);
  }
  return layout;
}

}  // namespace penstock::mpi
