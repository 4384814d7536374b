#include "rma_operations.hpp"

#include <climits>
#include <cstring>

#include "base/checked.hpp"
#include "base/format.hpp"
#include "datatypes.hpp"
#include "pmpi.hpp"
#include "scratch.hpp"

namespace penstock::mpi {

namespace {

using window::Extent;
using LayoutOf = std::shared_ptr<const Layout>;

/// Limit in bytes of one update under the segment's lock, so that other ranks do not wait long.
constexpr std::uint64_t max_at_once = 64 << 10;

/// Reused, so that repeated operations allocate nothing.
thread_local std::vector<Extent> extents_here;
thread_local std::vector<std::byte> packed_here, old_here, array_here, other_array_here;

struct PoolMapping {
  std::uint32_t rank = 0;
  Handle type = 0;
  LayoutOf layout;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< bytes of data
  std::span<const Extent> extents;
};

std::uint64_t count_of(Count count) {
  return count > 0 ? static_cast<std::uint64_t>(count) : 0;
}

MpiResult<LayoutOf> layout_of_argument(Handle type) {
  auto layout = layout_of(type);
  if (layout || layout.error().code == ErrorCode::no_space) return layout;
  return wrong(constants().err_type, "{}", layout.error().message);
}

/// True if the buffer's address is null by mistake. Null may also be MPI_BOTTOM: then the type
/// holds absolute addresses.
bool is_null(const Buffer& buffer, const Layout& layout, std::uint64_t bytes) {
  constexpr std::int64_t first_page = 4096;
  return bytes != 0 && buffer.at == nullptr && layout.true_lb >= 0 && layout.true_lb < first_page;
}

MpiResult<PoolMapping> locate(const PoolWindow& window, const Target& target) {
  if (auto there = check_rank(window, target.rank); !there) return unexpected(there.error());
  if (target.count < 0) return wrong(constants().err_count, "a target count of {}", target.count);
  auto layout = PENSTOCK_TRY(layout_of_argument(target.type));
  PoolMapping place{.rank = static_cast<std::uint32_t>(target.rank),
                    .type = target.type,
                    .layout = std::move(layout),
                    .count = count_of(target.count),
                    .bytes = 0,
                    .extents = {}};
  const auto limit = static_cast<std::int64_t>(window.core->member(place.rank).bytes);
  const auto data = base::checked_mul(place.count, place.layout->size);
  const auto first = base::checked_mul_signed(target.displacement, window.units[place.rank]);
  if (!data || (*data != 0 && !first))
    return fail(ErrorCode::invalid_argument,
                "{} elements of {} bytes at displacement {} are not within the {} bytes that rank "
                "{} has in this window",
                place.count, place.layout->size, target.displacement, limit, place.rank);
  place.bytes = *data;
  const std::int64_t from = first.value_or(0);  // without data any value will do
  const auto reach = reach_of(*place.layout, place.count, from);
  if (place.bytes != 0 && (reach.begin < 0 || reach.end > limit))
    return fail(ErrorCode::invalid_argument,
                "bytes {} to {} are not within the {} bytes that rank {} has in this window",
                reach.begin, reach.end, limit, place.rank);
  extents_here.clear();
  for_each_extent(*place.layout, place.count, from, [](std::int64_t at, std::uint64_t bytes) {
    extents_here.push_back({static_cast<std::uint64_t>(at), bytes});
  });
  place.extents = extents_here;
  return place;
}

MpiResult<LayoutOf> layout_that_fits(const Buffer& buffer, const PoolMapping& place) {
  if (buffer.count < 0) return wrong(constants().err_count, "a count of {}", buffer.count);
  LayoutOf layout =
      buffer.type == place.type ? place.layout : PENSTOCK_TRY(layout_of_argument(buffer.type));
  const auto bytes = base::checked_mul(count_of(buffer.count), layout->size);
  if (bytes != place.bytes)
    return wrong(constants().err_count,
                 "{} elements of {} bytes here do not fit {} elements of {} bytes at the target",
                 buffer.count, layout->size, place.count, place.layout->size);
  if (is_null(buffer, *layout, place.bytes))
    return wrong(constants().err_buffer, "a null pointer for {} bytes", place.bytes);
  return layout;
}

/// The buffer's data as contiguous bytes: in place if possible, else gathered.
const std::byte* packed(const Buffer& buffer, const Layout& layout, std::uint64_t bytes) {
  if (layout.contiguous) return static_cast<const std::byte*>(buffer.at);
  std::byte* const all = room(packed_here, bytes);
  gather(layout, buffer.at, count_of(buffer.count), all);
  return all;
}

MpiResult<void> do_put(PoolWindow& window, const Buffer& origin, const Target& target) {
  const auto place = PENSTOCK_TRY(locate(window, target));
  const auto layout = PENSTOCK_TRY(layout_that_fits(origin, place));
  PENSTOCK_TRY(window.core->put(place.rank, place.extents, packed(origin, *layout, place.bytes)));
  return {};
}

MpiResult<void> do_get(PoolWindow& window, const Buffer& origin, const Target& target) {
  const auto place = PENSTOCK_TRY(locate(window, target));
  const auto layout = PENSTOCK_TRY(layout_that_fits(origin, place));
  std::byte* const all =
      layout->contiguous ? static_cast<std::byte*>(origin.at) : room(packed_here, place.bytes);
  PENSTOCK_TRY(window.core->get(place.rank, place.extents, all));
  if (!layout->contiguous) scatter(*layout, all, origin.at, count_of(origin.count));
  return {};
}

// ---- accumulates -------------------------------------------------------------------------------

/// Computes target = operand op target for packed `elements` of the basic type of `layout`. The MPI
/// does it, since it knows every type and operation.
bool apply(const Layout& layout, const std::byte* operand, std::byte* target,
           std::uint64_t elements, Handle op) {
  if (op == constants().no_op) return false;
  if (op == constants().replace) {
    std::memcpy(target, operand, elements * layout.basic_size);
    return true;
  }
  const auto number = static_cast<int>(elements);
  if (!layout.basic_padded) {
    pmpi().Reduce_local(operand, target, number, layout.basic, op);
    return true;
  }
  const std::uint64_t bytes = elements * static_cast<std::uint64_t>(layout.basic_extent);
  std::byte* const in = room(array_here, bytes);
  std::byte* const inout = room(other_array_here, bytes);
  unpack_basic(layout, operand, elements, in);
  unpack_basic(layout, target, elements, inout);
  pmpi().Reduce_local(in, inout, number, layout.basic, op);
  pack_basic(layout, inout, elements, target);
  return true;
}

/// Splits extents into parts of a given number of bytes.
class Chunks {
 public:
  explicit Chunks(std::span<const Extent> extents) : extents_(extents) {}
  std::span<const Extent> next(std::uint64_t bytes) {
    chunk_.clear();
    while (bytes != 0 && at_ < extents_.size()) {
      const Extent& piece = extents_[at_];
      const std::uint64_t part = std::min(bytes, piece.bytes - done_);
      chunk_.push_back({piece.at + done_, part});
      bytes -= part;
      done_ += part;
      if (done_ != piece.bytes) continue;
      ++at_;
      done_ = 0;
    }
    return chunk_;
  }

 private:
  std::span<const Extent> extents_;
  std::vector<Extent> chunk_;
  std::size_t at_ = 0;
  std::uint64_t done_ = 0;
};

struct Accumulation {
  const Layout& layout;      ///< layout of the target
  const std::byte* operand;  ///< packed; null: MPI_NO_OP needs none
  std::byte* old;            ///< receives the packed old value; null: not wanted
  Handle op;
};

Result<void> update(PoolWindow& window, const PoolMapping& place, const Accumulation& what) {
  if (place.bytes <= max_at_once) {
    const auto change = [&](std::byte* target) {
      if (what.old != nullptr) std::memcpy(what.old, target, place.bytes);
      return apply(what.layout, what.operand, target, place.bytes / what.layout.basic_size,
                   what.op);
    };
    return window.core->update(place.rank, place.extents, std::cref(change));
  }
  Chunks chunks(place.extents);
  const std::uint64_t at_once = max_at_once / what.layout.basic_size * what.layout.basic_size;
  for (std::uint64_t done = 0; done < place.bytes; done += at_once) {
    const std::uint64_t bytes = std::min(at_once, place.bytes - done);
    const auto change = [&](std::byte* target) {
      if (what.old != nullptr) std::memcpy(what.old + done, target, bytes);
      return apply(what.layout, what.operand + done, target, bytes / what.layout.basic_size,
                   what.op);
    };
    auto changed = window.core->update(place.rank, chunks.next(bytes), std::cref(change));
    if (!changed) return changed;
  }
  return {};
}

MpiResult<void> check_op(const Layout& layout, Handle op) {
  if (!is_predefined_op(op))
    return wrong(constants().err_op,
                 "an accumulate takes predefined operations only, such as MPI_SUM");
  if (layout.basic == constants().datatype_null)
    return wrong(constants().err_type,
                 "an accumulate needs a datatype that is made of one predefined type");
  return {};
}

/// Accumulates at `place`. `result`: receives the old value; may be null.
MpiResult<void> accumulate_at(PoolWindow& window, const PoolMapping& place, const Buffer& origin,
                              const Buffer* result, Handle op) {
  const Layout& layout = *place.layout;
  if (place.bytes == 0) return {};
  if (auto sound = check_op(layout, op); !sound) return sound;
  Accumulation what{layout, nullptr, nullptr, op};
  if (op != constants().no_op) {
    const auto from = PENSTOCK_TRY(layout_that_fits(origin, place));
    what.operand = packed(origin, *from, place.bytes);
  }
  if (result == nullptr) {
    PENSTOCK_TRY(update(window, place, what));
    return {};
  }
  const auto to = PENSTOCK_TRY(layout_that_fits(*result, place));
  what.old = to->contiguous ? static_cast<std::byte*>(result->at) : room(old_here, place.bytes);
  PENSTOCK_TRY(update(window, place, what));
  if (!to->contiguous) scatter(*to, what.old, result->at, count_of(result->count));
  return {};
}

MpiResult<void> do_accumulate(PoolWindow& window, const Buffer& origin, const Buffer* result,
                              const Target& target, Handle op) {
  const auto place = PENSTOCK_TRY(locate(window, target));
  return accumulate_at(window, place, origin, result, op);
}

MpiResult<void> do_compare_and_swap(PoolWindow& window, const void* origin, const void* compare,
                                    void* result, const Target& target) {
  const auto place = PENSTOCK_TRY(locate(window, target));
  if (!place.layout->contiguous)
    return wrong(constants().err_type,
                 "MPI_Compare_and_swap takes one element of an integer, logical or byte type");
  const auto change = [&](std::byte* at) {
    std::memcpy(result, at, place.bytes);
    if (std::memcmp(at, compare, place.bytes) != 0) return false;
    std::memcpy(at, origin, place.bytes);
    return true;
  };
  PENSTOCK_TRY(window.core->update(place.rank, place.extents, std::cref(change)));
  return {};
}

/// True if the range is one aligned word. It can be read without a lock: reads of it are atomic.
bool is_word(const PoolMapping& place) {
  const std::uint64_t bytes = place.bytes;
  return place.extents.size() == 1 && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) &&
         place.extents.front().at % bytes == 0;
}

MpiResult<void> do_fetch_and_op(PoolWindow& window, const Buffer& origin, const Buffer& result,
                                const Target& target, Handle op) {
  const auto place = PENSTOCK_TRY(locate(window, target));
  if (op == constants().no_op && is_word(place)) {
    PENSTOCK_TRY(window.core->get(place.rank, place.extents, result.at));
    return {};
  }
  return accumulate_at(window, place, origin, &result, op);
}

bool is_proc_null(const Target& target) {
  return target.rank == constants().proc_null;
}

}  // namespace

MpiResult<void> check_rank(const PoolWindow& window, int rank) {
  if (rank >= 0 && static_cast<std::size_t>(rank) < window.units.size()) return {};
  return wrong(constants().err_rank, "rank {} of a window of {} ranks", rank, window.units.size());
}

MpiResult<void> put(PoolWindow& window, const Buffer& origin, const Target& target) {
  if (is_proc_null(target)) return {};
  return do_put(window, origin, target);
}

MpiResult<void> get(PoolWindow& window, const Buffer& origin, const Target& target) {
  if (is_proc_null(target)) return {};
  return do_get(window, origin, target);
}

MpiResult<void> accumulate(PoolWindow& window, const Buffer& origin, const Buffer* result,
                           const Target& target, Handle op) {
  if (is_proc_null(target)) return {};
  return do_accumulate(window, origin, result, target, op);
}

MpiResult<void> fetch_and_op(PoolWindow& window, const Buffer& origin, const Buffer& result,
                             const Target& target, Handle op) {
  if (is_proc_null(target)) return {};
  return do_fetch_and_op(window, origin, result, target, op);
}

MpiResult<void> compare_and_swap(PoolWindow& window, const void* origin, const void* compare,
                                 void* result, const Target& target) {
  if (is_proc_null(target)) return {};
  return do_compare_and_swap(window, origin, compare, result, target);
}

}  // namespace penstock::mpi
