// A library for the programs of tests/e2e/mpi_library_test.py. They are compiled with the real
// mpi.h of an MPI and compare its definitions with ours. Never installed.
#include <cstring>

#include "abi.hpp"
#include "datatypes.hpp"
#include "pmpi.hpp"

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

using namespace penstock::mpi;

namespace {

struct Known {
  const char* mpi_name;
  long long (*value)();
};
constexpr Known known[] = {
#define PENSTOCK_INT(name, mpi_name, mpich, open_mpi, standard) \
  {#mpi_name, [] { return static_cast<long long>(constants().name); }},
#define PENSTOCK_HANDLE(name, mpi_name, mpich, open_mpi, standard) \
  {#mpi_name, [] { return static_cast<long long>(constants().name); }},
#define PENSTOCK_POINTER(name, mpi_name, mpich, open_mpi, standard) \
  {#mpi_name,                                                       \
   [] { return static_cast<long long>(reinterpret_cast<std::intptr_t>(constants().name)); }},
#include "abi_table.inc"
#undef PENSTOCK_INT
#undef PENSTOCK_HANDLE
#undef PENSTOCK_POINTER
};

char message[4096];

std::shared_ptr<const Layout> layout(Handle type) {
  const auto found = layout_of(incoming(type));
  if (found) return *found;
  std::strncpy(message, found.error().message.c_str(), sizeof message - 1);
  return nullptr;
}

}  // namespace

/// Returns the name of the ABI found for the caller's MPI; or null, with an explanation in
/// check_message.
PENSTOCK_EXPORT const char* check_find() {
  const auto found = find_mpi(__builtin_return_address(0));
  if (found)
    return abi() == Abi::mpich ? "mpich" : abi() == Abi::open_mpi ? "open_mpi" : "standard";
  std::strncpy(message, found.error().message.c_str(), sizeof message - 1);
  return nullptr;
}

PENSTOCK_EXPORT const char* check_message() {
  return message;
}

/// Returns 1 if our value is the same, 0 if it differs, -1 if the name is unknown. Handles are
/// passed as 64-bit numbers.
PENSTOCK_EXPORT int check_constant(const char* mpi_name, long long value) {
  for (const Known& constant : known) {
    if (std::strcmp(constant.mpi_name, mpi_name) == 0) return constant.value() == value ? 1 : 0;
  }
  return -1;
}

/// Writes the figures of a layout: size, lb, extent, true lb, true ub, contiguous, number of
/// extents, the basic type's size, extent and count, and whether it is `basic`. Returns -1 without
/// a layout; check_message says why.
PENSTOCK_EXPORT int check_layout(Handle type, Handle basic, long long* numbers) {
  const auto found = layout(type);
  if (!found) return -1;
  const long long told[] = {static_cast<long long>(found->size),
                            found->lb,
                            found->extent,
                            found->true_lb,
                            found->true_ub,
                            found->contiguous ? 1 : 0,
                            static_cast<long long>(found->extents.size()),
                            static_cast<long long>(found->basic_size),
                            found->basic_extent,
                            static_cast<long long>(found->basic_count),
                            found->basic == incoming(basic) ? 1 : 0};
  std::memcpy(numbers, told, sizeof told);
  return 0;
}

PENSTOCK_EXPORT int check_gather(Handle type, const void* user, long long count, void* packed) {
  const auto found = layout(type);
  if (found) gather(*found, user, static_cast<std::uint64_t>(count), packed);
  return found ? 0 : -1;
}

PENSTOCK_EXPORT int check_scatter(Handle type, const void* packed, void* user, long long count) {
  const auto found = layout(type);
  if (found) scatter(*found, packed, user, static_cast<std::uint64_t>(count));
  return found ? 0 : -1;
}

/// Converts the user's buffer to an array of the basic type, to packed bytes, back to an array, and
/// to another user's buffer.
PENSTOCK_EXPORT int check_basic(Handle type, const void* user, long long count, void* array,
                                void* packed, void* other_array, void* other_user) {
  const auto found = layout(type);
  if (!found) return -1;
  const auto n = static_cast<std::uint64_t>(count);
  gather_basic(*found, user, n, array);
  pack_basic(*found, array, n * found->basic_count, packed);
  unpack_basic(*found, packed, n * found->basic_count, other_array);
  scatter_basic(*found, other_array, other_user, n);
  return 0;
}

PENSTOCK_EXPORT void check_reach(Handle type, long long count, long long at, long long* reach) {
  const auto found = layout(type);
  if (!found) return;
  const AccessRanges told = reach_of(*found, static_cast<std::uint64_t>(count), at);
  reach[0] = told.begin;
  reach[1] = told.end;
}

PENSTOCK_EXPORT Handle check_window_from_fortran(int handle) {
  return window_from_fortran(handle);
}

PENSTOCK_EXPORT void check_close() {
  close_datatypes();
}
