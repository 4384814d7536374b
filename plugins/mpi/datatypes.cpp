#include "datatypes.hpp"

#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <mutex>

#include "base/format.hpp"
#include "flatten.hpp"
#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

using SharedLayout = std::shared_ptr<const Layout>;

// The table of predefined types. It is read without a lock: entries are only added, until the MPI
// ends.
struct Entry {
  Handle type;
  SharedLayout layout;
};
constexpr std::size_t table_size = 1024;  // MPIs have fewer than 200 predefined types
std::array<std::atomic<const Entry*>, table_size> table;
std::size_t table_used = 0;

std::mutex guard;  // guards additions to the table, and the attributes
bool has_keyval = false;
int keyval = 0;

std::size_t slot_of(Handle type) {
  return static_cast<std::size_t>((static_cast<std::uint64_t>(type) * 0x9e3779b97f4a7c15u) >> 54);
}

const Entry* find_predefined(Handle type) {
  for (std::size_t at = slot_of(type);; at = (at + 1) % table_size) {
    const Entry* entry = table[at].load(std::memory_order_acquire);
    if (entry == nullptr || entry->type == type) return entry;
  }
}

void add_predefined(Handle type, const SharedLayout& layout) {
  if (table_used >= table_size / 2) return;  // the layout is then computed each time
  std::size_t at = slot_of(type);
  while (const Entry* entry = table[at].load(std::memory_order_relaxed)) {
    if (entry->type == type) return;
    at = (at + 1) % table_size;
  }
  table[at].store(new Entry{type, layout}, std::memory_order_release);
  ++table_used;
}

// Attribute callbacks. The handle in the register may have undefined upper bits, so they ignore it.
int keep_from_copy(Handle, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return 0;
}
int drop(Handle, int, void* value, void*) {
  delete static_cast<SharedLayout*>(value);
  return 0;
}

/// Types that served layouts which have been destroyed. A layout may be destroyed in any thread, so
/// its type is freed later, in an MPI call of the program.
struct Unneeded {
  std::mutex mutex;
  std::vector<Handle> types;
};
Unneeded& unneeded() {
  static auto* all = new Unneeded;  // never destroyed: layouts may end in exit handlers
  return *all;
}

void free_unneeded() {
  std::vector<Handle> types;
  {
    const std::lock_guard<std::mutex> held(unneeded().mutex);
    types.swap(unneeded().types);
  }
  for (const Handle type : types) pmpi().Type_free(Slot(type));
}

/// Returns a layout that packs by the MPI, for a type that has too many pieces. Returns `too_many`
/// if the MPI cannot pack it either.
Result<SharedLayout> packed_by_the_mpi(Handle type, const Error& too_many) {
  const auto [size, lb, extent] = measures_of(type);
  if (size > INT_MAX && (pmpi().Pack_c == nullptr || pmpi().Unpack_c == nullptr))
    return unexpected(too_many);
  Slot copy;
  if (pmpi().Type_dup(type, copy) != constants().success) return unexpected(too_many);
  auto made = std::make_unique<Layout>();
  made->size = size;
  made->lb = lb;
  made->extent = extent;
  made->packer = copy.get();
  return SharedLayout(made.release(), [](const Layout* layout) {
    const std::lock_guard<std::mutex> held(unneeded().mutex);
    unneeded().types.push_back(layout->packer);
    delete layout;
  });
}

/// Packs by the MPI, one element a call: MPI_Pack counts bytes as int.
void pack(const Layout& layout, const char* user, std::uint64_t count, char* packed) {
  const Handle self = constants().comm_self;
  for (std::uint64_t n = 0; n < count; ++n, user += layout.extent, packed += layout.size) {
    int position = 0;
    Count long_position = 0;
    if (layout.size <= INT_MAX)
      pmpi().Pack(user, 1, layout.packer, packed, static_cast<int>(layout.size), &position, self);
    else
      pmpi().Pack_c(user, 1, layout.packer, packed, static_cast<Count>(layout.size), &long_position,
                    self);
  }
}

void unpack(const Layout& layout, const char* packed, char* user, std::uint64_t count) {
  const Handle self = constants().comm_self;
  for (std::uint64_t n = 0; n < count; ++n, user += layout.extent, packed += layout.size) {
    int position = 0;
    Count long_position = 0;
    if (layout.size <= INT_MAX)
      pmpi().Unpack(packed, static_cast<int>(layout.size), &position, user, 1, layout.packer, self);
    else
      pmpi().Unpack_c(packed, static_cast<Count>(layout.size), &long_position, user, 1,
                      layout.packer, self);
  }
}

Result<void> need_keyval() {
  if (has_keyval) return {};
  const int status = pmpi().Type_create_keyval(reinterpret_cast<void*>(keep_from_copy),
                                               reinterpret_cast<void*>(drop), &keyval, nullptr);
  if (status != constants().success) {
    return fail(ErrorCode::unavailable, "the MPI gives no attribute for datatypes (error {})",
                status);
  }
  has_keyval = true;
  return {};
}

SharedLayout attribute_of(Handle type) {
  void* value = nullptr;
  int flag = 0;
  const int status = pmpi().Type_get_attr(type, keyval, &value, &flag);
  if (status != constants().success || flag == 0 || value == nullptr) return nullptr;
  return *static_cast<SharedLayout*>(value);
}

void copy(void* to, const void* from, std::uint64_t bytes) {
  switch (bytes) {  // most pieces are single numbers: copy them without a call
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

/// Calls fn(address in the user's buffer, address in an array) for each element of a padded basic
/// type.
template <class Fn>
void for_each_basic(const Layout& layout, std::uint64_t count, Fn fn) {
  std::int64_t in_array = 0;
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::int64_t base = static_cast<std::int64_t>(n) * layout.extent;
    for (const Run& run : layout.runs) {
      std::int64_t at = base + run.at;
      for (std::uint64_t k = 0; k < run.count; ++k) {
        fn(at, in_array);
        at += layout.basic_extent;
        in_array += layout.basic_extent;
      }
    }
  }
}

std::int64_t saturated(__int128 value) {
  if (value > INT64_MAX) return INT64_MAX;
  if (value < INT64_MIN) return INT64_MIN;
  return static_cast<std::int64_t>(value);
}

}  // namespace

Result<SharedLayout> packable_layout_of(Handle type) {
  if (const Entry* entry = find_predefined(type)) return entry->layout;
  if (type == constants().datatype_null) {
    return fail(ErrorCode::invalid_argument, "the datatype is MPI_DATATYPE_NULL");
  }
  const std::lock_guard<std::mutex> held(guard);
  PENSTOCK_TRY(need_keyval());
  if (SharedLayout known = attribute_of(type)) return known;
  free_unneeded();
  auto flat = flatten(type);
  if (!flat && flat.error().code != ErrorCode::no_space) return unexpected(flat.error());
  SharedLayout made;
  if (flat) {
    made = std::make_shared<const Layout>(*std::move(flat));
  } else {
    auto packed = PENSTOCK_TRY(packed_by_the_mpi(type, flat.error()));
    made = std::move(packed);
  }
  const auto predefined = PENSTOCK_TRY(is_predefined(type));
  if (predefined) {
    add_predefined(type, made);
    return made;
  }
  auto* kept = new SharedLayout(made);
  if (pmpi().Type_set_attr(type, keyval, kept) != constants().success) delete kept;
  return made;
}

Result<SharedLayout> layout_of(Handle type) {
  auto layout = packable_layout_of(type);
  if (layout && (*layout)->packer != 0) return unexpected(too_many_pieces());
  return layout;
}

void close_datatypes() {
  const std::lock_guard<std::mutex> held(guard);
  free_unneeded();
  for (auto& place : table) {
    delete place.exchange(nullptr, std::memory_order_relaxed);
  }
  table_used = 0;
  if (has_keyval) pmpi().Type_free_keyval(&keyval);
  has_keyval = false;
}

AccessRanges reach_of(const Layout& layout, std::uint64_t count, std::int64_t displacement) {
  if (count == 0 || layout.size == 0) return {displacement, displacement};
  const __int128 last = static_cast<__int128>(count - 1) * layout.extent;
  const __int128 begin = (last < 0 ? last : 0) + layout.true_lb + displacement;
  const __int128 end = (last > 0 ? last : 0) + layout.true_ub + displacement;
  return {saturated(begin), saturated(end)};
}

void gather(const Layout& layout, const void* user, std::uint64_t count, void* packed) {
  auto* to = static_cast<char*>(packed);
  if (layout.packer != 0) return pack(layout, static_cast<const char*>(user), count, to);
  for_each_extent(layout, count, 0, [&](std::int64_t at, std::uint64_t bytes) {
    copy(to, static_cast<const char*>(user) + at, bytes);
    to += bytes;
  });
}

void scatter(const Layout& layout, const void* packed, void* user, std::uint64_t count) {
  const auto* from = static_cast<const char*>(packed);
  if (layout.packer != 0) return unpack(layout, from, static_cast<char*>(user), count);
  for_each_extent(layout, count, 0, [&](std::int64_t at, std::uint64_t bytes) {
    copy(static_cast<char*>(user) + at, from, bytes);
    from += bytes;
  });
}

void gather_basic(const Layout& layout, const void* user, std::uint64_t count, void* array) {
  if (!layout.basic_padded) return gather(layout, user, count, array);
  for_each_basic(layout, count, [&](std::int64_t at, std::int64_t in_array) {
    for (const Extent& piece : layout.basic_extents) {
      copy(static_cast<char*>(array) + in_array + piece.at,
           static_cast<const char*>(user) + at + piece.at, piece.bytes);
    }
  });
}

void scatter_basic(const Layout& layout, const void* array, void* user, std::uint64_t count) {
  if (!layout.basic_padded) return scatter(layout, array, user, count);
  for_each_basic(layout, count, [&](std::int64_t at, std::int64_t in_array) {
    for (const Extent& piece : layout.basic_extents) {
      copy(static_cast<char*>(user) + at + piece.at,
           static_cast<const char*>(array) + in_array + piece.at, piece.bytes);
    }
  });
}

void unpack_basic(const Layout& layout, const void* packed, std::uint64_t elements, void* array) {
  if (!layout.basic_padded) {
    if (elements != 0) std::memcpy(array, packed, elements * layout.basic_size);
    return;
  }
  const auto* from = static_cast<const char*>(packed);
  auto* to = static_cast<char*>(array);
  for (std::uint64_t n = 0; n < elements; ++n, to += layout.basic_extent) {
    for (const Extent& piece : layout.basic_extents) {
      copy(to + piece.at, from, piece.bytes);
      from += piece.bytes;
    }
  }
}

void pack_basic(const Layout& layout, const void* array, std::uint64_t elements, void* packed) {
  if (!layout.basic_padded) {
    if (elements != 0) std::memcpy(packed, array, elements * layout.basic_size);
    return;
  }
  const auto* from = static_cast<const char*>(array);
  auto* to = static_cast<char*>(packed);
  for (std::uint64_t n = 0; n < elements; ++n, from += layout.basic_extent) {
    for (const Extent& piece : layout.basic_extents) {
      copy(to, from + piece.at, piece.bytes);
      to += piece.bytes;
    }
  }
}

}  // namespace penstock::mpi
