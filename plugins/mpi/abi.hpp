// The binary interface of the MPI in this process: how wide its handles are and what its constants
// mean. One library serves all MPIs: in the psABIs of x86-64 and aarch64 an int, a pointer and an
// MPI_Aint each take one 64-bit register or stack slot, so functions that take every handle as a
// Handle can be called through any MPI's header. MPIs differ in the width of handles in memory, in
// the upper half of a register (undefined if handles are ints) and in the constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>

#include "base/status.hpp"

namespace penstock::mpi {

enum class Abi : std::uint8_t {
  mpich,     ///< MPICH's ABI initiative: MPICH, Intel MPI, MVAPICH; handles are ints
  open_mpi,  ///< handles are pointers; predefined ones point to data of the library
  standard,  ///< MPI 5.0's ABI: handles are pointers; predefined ones are small numbers
};
const char* abi_name(Abi abi);

/// Any handle of any MPI. Equal values are equal handles; the upper half is zero if the MPI's
/// handles are ints.
using Handle = std::uintptr_t;
using Aint = std::int64_t;   ///< MPI_Aint and MPI_Offset
using Count = std::int64_t;  ///< MPI_Count

/// A constant that this MPI does not have. No constant of any MPI has this value.
inline constexpr int absent = INT32_MIN;
/// A handle that this MPI does not have.
inline constexpr Handle absent_handle = ~Handle{0};

/// The constants, under MPI's names in lower case without MPI_. abi_table.inc lists their values in
/// each ABI.
struct Constants {
#define PENSTOCK_INT(name, mpi_name, mpich, open_mpi, standard) int name = absent;
#define PENSTOCK_HANDLE(name, mpi_name, mpich, open_mpi, standard) Handle name = absent_handle;
#define PENSTOCK_POINTER(name, mpi_name, mpich, open_mpi, standard) void* name = nullptr;
#include "abi_table.inc"
#undef PENSTOCK_INT
#undef PENSTOCK_HANDLE
#undef PENSTOCK_POINTER
};

/// ABI and constants of this process's MPI. Valid, and constant, once find_mpi() (pmpi.hpp) has
/// succeeded.
namespace detail {
extern Abi current_abi;
extern Constants current_constants;
}  // namespace detail

inline Abi abi() {
  return detail::current_abi;
}
inline const Constants& constants() {
  return detail::current_constants;
}

/// A predefined operation, by its name in MPI: "MPI_SUM".
struct NamedOp {
  const char* name;
  Handle op;
};
/// The predefined operations of this MPI.
std::span<const NamedOp> predefined_ops();

/// True if the handle is one of predefined_ops(), which accumulates may use.
bool is_predefined_op(Handle op);

/// Bytes of a handle in memory.
inline std::size_t handle_bytes() {
  return abi() == Abi::mpich ? 4 : 8;
}

/// Converts a handle that an intercepted function received in a register.
inline Handle incoming(Handle handle) {
  return abi() == Abi::mpich ? handle & 0xffffffffu : handle;
}

/// Loads a handle from memory: from an MPI_Win*, or an element of an array.
inline Handle load(const void* place) {
  if (abi() == Abi::mpich) {
    std::uint32_t narrow = 0;
    std::memcpy(&narrow, place, sizeof narrow);
    return narrow;
  }
  Handle handle = 0;
  std::memcpy(&handle, place, sizeof handle);
  return handle;
}

inline void store(void* place, Handle handle) {
  std::memcpy(place, &handle, handle_bytes());  // both ABIs' machines are little-endian
}

/// The n-th handle of an array.
inline Handle load_at(const void* array, std::size_t n) {
  return load(static_cast<const char*>(array) + n * handle_bytes());
}
inline void store_at(void* array, std::size_t n, Handle handle) {
  store(static_cast<char*>(array) + n * handle_bytes(), handle);
}

/// Bytes of an MPI_Status, and the offsets of its public fields.
struct StatusShape {
  std::size_t bytes, source, tag, error;
};
inline StatusShape status_shape() {
  if (abi() == Abi::mpich) return {20, 8, 12, 16};
  return {abi() == Abi::open_mpi ? std::size_t{24} : std::size_t{32}, 0, 4, 8};
}
inline void set_source_and_tag(void* status, int source, int tag) {
  const StatusShape shape = status_shape();
  std::memcpy(static_cast<char*>(status) + shape.source, &source, sizeof source);
  std::memcpy(static_cast<char*>(status) + shape.tag, &tag, sizeof tag);
}
/// Sets the error of the n-th status of an array.
inline void set_error(void* statuses, std::size_t n, int code) {
  const StatusShape shape = status_shape();
  std::memcpy(static_cast<char*>(statuses) + n * shape.bytes + shape.error, &code, sizeof code);
}

/// Holds one handle for the MPI to read or write: `Slot s; pmpi().Comm_dup(c, s); s.get()`.
class Slot {
 public:
  Slot() = default;
  explicit Slot(Handle handle) : place_(handle) {}
  operator void*() { return &place_; }  // NOLINT: passed as the MPI's handle pointer
  Handle get() const { return load(&place_); }

 private:
  Handle place_ = 0;
};

/// Returns the constants of `abi`. `symbol` finds data of the library by name (Open MPI's
/// predefined handles are addresses); `version` is the text of MPI_Get_library_version. Errors: the
/// library lacks a symbol.
Result<Constants> constants_of(Abi abi, const std::function<void*(const char*)>& symbol,
                               const std::string& version);
/// Sets this process's ABI and constants. Called once, by find_mpi().
void use_abi(Abi abi, const Constants& constants);

}  // namespace penstock::mpi
