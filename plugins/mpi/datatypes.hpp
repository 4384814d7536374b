// The memory layout of a datatype, for any MPI: flattened once from the MPI's description of the
// type (its envelope and contents), and cached with the type until it is freed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "abi.hpp"
#include "base/status.hpp"

namespace penstock::mpi {

/// Bytes that lie side by side, relative to the buffer's address.
struct Extent {
  std::int64_t at;
  std::uint64_t bytes;
};

/// `count` elements of the basic type, each `basic_extent` after the one before.
struct Run {
  std::int64_t at;
  std::uint64_t count;
};

struct Layout {
  std::vector<Extent> extents;  ///< of one element, in the order of the type map, neighbours merged
  std::uint64_t size = 0;       ///< bytes of data in one element: MPI_Type_size
  std::int64_t lb = 0;
  std::int64_t extent = 0;
  std::int64_t true_lb = 0;  ///< the lowest byte that is data, and one behind the highest
  std::int64_t true_ub = 0;
  bool contiguous = false;  ///< n elements are the n * size bytes at displacement 0; so is size 0

  /// The one predefined type of which all data are; datatype_null when there are several, or none
  /// (size 0). Types made by MPI_Type_create_f90_* and MPI_Type_get_value_index count as
  /// predefined.
  Handle basic = 0;
  std::uint64_t basic_size = 0;   ///< bytes of data; 0 when basic is null
  std::int64_t basic_extent = 0;  ///< stride of an array of them: 16 for MPI_DOUBLE_INT of size 12
  std::uint64_t basic_count = 0;  ///< in one element of this type
  /// The basic type has holes or padding (size != extent: MPI_DOUBLE_INT, MPI_SHORT_INT), so packed
  /// bytes are no array of it. Then `runs` gives the places of its elements, and `basic_extents`
  /// the data bytes of each; else both are empty.
  bool basic_padded = false;
  std::vector<Run> runs;
  std::vector<Extent> basic_extents;

  /// Of a type of more pieces than memory should hold (packable_layout_of): the type by which the
  /// MPI packs an element. Then of the above there are only size, lb and extent. Else 0.
  Handle packer = 0;
};

/// The layout of a type, committed or not. Cached after the first call: in a small table for
/// predefined types, in an attribute for others. Thread-safe. The layout stays while it is held.
/// Errors: datatype_null, or a type that the MPI refuses (invalid_argument); a type of more pieces
/// than memory should hold (no_space).
Result<std::shared_ptr<const Layout>> layout_of(Handle type);

/// The same, also of a type of too many pieces, for those who only gather() and scatter(). Such a
/// layout keeps the type alive in the MPI. Errors: no_space, where the MPI cannot pack an element.
Result<std::shared_ptr<const Layout>> packable_layout_of(Handle type);

/// Drops the cached layouts, before the MPI ends (MPI_Finalize, the last session). No other call
/// may run meanwhile; layouts held by others stay.
void close_datatypes();

/// Calls fn(at, bytes) for the bytes of `count` elements at `displacement`, in order; merges
/// extents that touch across elements into one call.
template <class Fn>
void for_each_extent(const Layout& layout, std::uint64_t count, std::int64_t displacement, Fn fn) {
  if (count == 0 || layout.size == 0) return;
  if (layout.contiguous) {
    fn(displacement, count * layout.size);
    return;
  }
  Extent held{0, 0};
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::int64_t base = displacement + static_cast<std::int64_t>(n) * layout.extent;
    for (const Extent& piece : layout.extents) {
      const std::int64_t at = base + piece.at;
      if (held.bytes != 0 && at == held.at + static_cast<std::int64_t>(held.bytes)) {
        held.bytes += piece.bytes;
        continue;
      }
      if (held.bytes != 0) fn(held.at, held.bytes);
      held = {at, piece.bytes};
    }
  }
  fn(held.at, held.bytes);
}

/// The lowest byte that `count` elements at `displacement` touch, and one behind the highest; both
/// `displacement` when they touch none. For range checks: saturates instead of overflowing.
struct AccessRanges {
  std::int64_t begin;
  std::int64_t end;
};
AccessRanges reach_of(const Layout& layout, std::uint64_t count, std::int64_t displacement);

/// `count` elements at `user` into count * size bytes at `packed`, as MPI_Pack does it; and back.
/// The memories do not overlap.
void gather(const Layout& layout, const void* user, std::uint64_t count, void* packed);
void scatter(const Layout& layout, const void* packed, void* user, std::uint64_t count);

/// The same, with an array of the basic type instead of packed bytes: what MPI_Reduce_local works
/// on. The array has count * basic_count elements, basic_extent apart; padding between is not read
/// and not written, at either side. layout.basic is not null.
void gather_basic(const Layout& layout, const void* user, std::uint64_t count, void* array);
void scatter_basic(const Layout& layout, const void* array, void* user, std::uint64_t count);

/// Between packed bytes and an array of `elements` of the basic type: copies when it is not padded.
void unpack_basic(const Layout& layout, const void* packed, std::uint64_t elements, void* array);
void pack_basic(const Layout& layout, const void* array, std::uint64_t elements, void* packed);

}  // namespace penstock::mpi
