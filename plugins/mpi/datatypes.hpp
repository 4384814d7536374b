// The memory layout of a datatype, for any MPI. It is computed once from the MPI's description of
// the type (its envelope and contents), and cached until the type is freed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "abi.hpp"
#include "base/status.hpp"

namespace penstock::mpi {

/// A range of contiguous bytes, relative to the buffer's address.
struct Extent {
  std::int64_t at;
  std::uint64_t bytes;
};

/// `count` elements of the basic type, `basic_extent` bytes apart.
struct Run {
  std::int64_t at;
  std::uint64_t count;
};

struct Layout {
  std::vector<Extent> extents;  ///< of one element, in type-map order; adjacent ones are merged
  std::uint64_t size = 0;       ///< bytes of data in one element: MPI_Type_size
  std::int64_t lb = 0;
  std::int64_t extent = 0;
  std::int64_t true_lb = 0;  ///< the lowest data byte; true_ub is one past the highest
  std::int64_t true_ub = 0;
  bool contiguous = false;  ///< n elements are n * size bytes at displacement 0; true for size 0

  /// The predefined type of all data; datatype_null if there are several types, or no data. Types
  /// made by MPI_Type_create_f90_* and MPI_Type_get_value_index count as predefined.
  Handle basic = 0;
  std::uint64_t basic_size = 0;   ///< bytes of data; 0 when basic is null
  std::int64_t basic_extent = 0;  ///< stride in an array: 16 for MPI_DOUBLE_INT of size 12
  std::uint64_t basic_count = 0;  ///< in one element of this type
  /// True if the basic type has holes or padding (size != extent: MPI_DOUBLE_INT, MPI_SHORT_INT),
  /// so that packed bytes are no array of it. Then `runs` locates its elements, and `basic_extents`
  /// the data bytes of each; otherwise both are empty.
  bool basic_padded = false;
  std::vector<Run> runs;
  std::vector<Extent> basic_extents;

  /// If the type has too many pieces to list (packable_layout_of): the type by which the MPI packs
  /// an element; of the fields above only size, lb and extent are then set. Otherwise 0.
  Handle packer = 0;
};

/// Returns the layout of a type, committed or not. The first call caches it: in a small table for
/// predefined types, in an attribute for others. Errors: invalid_argument for datatype_null or a
/// type that the MPI refuses; no_space for a type with too many pieces. Thread-safe.
Result<std::shared_ptr<const Layout>> layout_of(Handle type);

/// Like layout_of(), but also handles types with too many pieces; the result then serves gather()
/// and scatter() only, and keeps the type alive in the MPI. Errors: also no_space if the MPI cannot
/// pack an element.
Result<std::shared_ptr<const Layout>> packable_layout_of(Handle type);

/// Drops the cached layouts before the MPI ends (MPI_Finalize, or the last session). No other call
/// may run meanwhile. Layouts with other owners stay.
void close_datatypes();

/// Calls fn(at, bytes) for each contiguous range of `count` elements at `displacement`, in order.
/// Ranges that are adjacent across elements are merged.
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

/// The lowest byte that `count` elements at `displacement` touch, and one past the highest; both
/// `displacement` if they touch none. For range checks: saturates instead of overflowing.
struct AccessRanges {
  std::int64_t begin;
  std::int64_t end;
};
AccessRanges reach_of(const Layout& layout, std::uint64_t count, std::int64_t displacement);

/// Packs `count` elements at `user` into count * size bytes at `packed`, as MPI_Pack does; and
/// unpacks them. The two ranges do not overlap.
void gather(const Layout& layout, const void* user, std::uint64_t count, void* packed);
void scatter(const Layout& layout, const void* packed, void* user, std::uint64_t count);

/// Like gather() and scatter(), but with an array of the basic type instead of packed bytes, as
/// MPI_Reduce_local needs it. The array has count * basic_count elements, basic_extent bytes apart;
/// padding is neither read nor written. layout.basic must not be null.
void gather_basic(const Layout& layout, const void* user, std::uint64_t count, void* array);
void scatter_basic(const Layout& layout, const void* array, void* user, std::uint64_t count);

/// Converts between packed bytes and an array of `elements` of the basic type. A plain copy if the
/// type is not padded.
void unpack_basic(const Layout& layout, const void* packed, std::uint64_t elements, void* array);
void pack_basic(const Layout& layout, const void* array, std::uint64_t elements, void* packed);

}  // namespace penstock::mpi
