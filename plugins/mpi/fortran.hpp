// Shared parts of the Fortran entry points. Fortran passes each argument by reference. A class
// that holds one pointer and nothing else travels as that pointer in the psABIs of x86-64 and
// aarch64, so the parameters' classes define how each is read.
#pragma once

#include <atomic>
#include <type_traits>

#include "export.hpp"

namespace penstock::mpi::fortran {

/// Our own functions in C (*_calls.cpp), with the arguments of PMPI_'s.
extern "C" {
#define PENSTOCK_NEEDED(name, arguments) int MPI_##name arguments;
#define PENSTOCK_OPTIONAL(name, arguments) int MPI_##name arguments;
#include "pmpi_table.inc"
#undef PENSTOCK_NEEDED
#undef PENSTOCK_OPTIONAL
}

/// True if we convert and serve the program's call; if not, the MPI's own Fortran function gets it
/// unchanged. Reports once why windows cannot be ours.
bool serves_mpif_h(const void* caller);
bool serves_f08(const void* caller);
bool serves_f08_logical(const void* caller);

/// MPI_BOTTOM and MPI_IN_PLACE of Fortran, addresses of variables, become those of C.
void* buffer(void* at);
/// The value of Fortran's .true. under the compiler that this MPI was built with.
int true_value();

struct Int {
  const int* at;
  operator int() const { return *at; }  // NOLINT: as Fortran passes it, it is read
};
/// INTEGER(KIND=MPI_ADDRESS_KIND)
struct Wide {
  const Aint* at;
  operator Aint() const { return *at; }  // NOLINT
};
template <Kind kind>
struct In {
  const int* at;
  operator Handle() const { return from_fortran(kind, *at); }  // NOLINT
};
using Win = In<Kind::win>;
using Type = In<Kind::datatype>;
using Op = In<Kind::op>;
using Info = In<Kind::info>;
using Comm = In<Kind::comm>;
using Group = In<Kind::group>;
struct Buffer {
  void* at;
  operator void*() const { return buffer(at); }  // NOLINT
};
template <Kind kind>
struct Out {
  int* at;
};
struct Logical {
  int* at;
};

/// Stands for a handle in a call in C and writes it for Fortran after that.
template <Kind kind>
class Written {
 public:
  Written(Out<kind> out, Handle before) : out_(out), slot_(before) {}
  ~Written() {
    if (slot_.get() != 0) *out_.at = to_fortran(kind, slot_.get());  // 0: the call failed
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  operator void*() { return slot_; }  // NOLINT

 private:
  Out<kind> out_;
  Slot slot_;
};
template <Kind kind>
Written<kind> made(Out<kind> out) {
  return {out, 0};
}
template <Kind kind>
Written<kind> changed(Out<kind> out) {
  return {out, from_fortran(kind, *out.at)};
}

/// The same for a truth value.
class WrittenLogical {
 public:
  explicit WrittenLogical(Logical out) : out_(out) {}
  ~WrittenLogical() {
    if (value_ != unset) *out_.at = value_ != 0 ? true_value() : 0;
  }
  WrittenLogical(const WrittenLogical&) = delete;
  WrittenLogical& operator=(const WrittenLogical&) = delete;
  operator int*() { return &value_; }  // NOLINT

 private:
  static constexpr int unset = -1;
  Logical out_;
  int value_ = unset;
};
inline WrittenLogical made(Logical out) {
  return WrittenLogical(out);
}

/// `ierror` is optional in mpi_f08.
inline void report(int* ierror, int status) {
  if (ierror != nullptr) *ierror = status;
}

/// The MPI's own Fortran function of a name that we intercept.
template <class Function>
class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}
  Function* operator()(const void* caller) {
    void* address = address_.load(std::memory_order_relaxed);
    if (address == nullptr) {
      address = next_symbol(name_, caller);
      address_.store(address, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function*>(address);
  }

 private:
  const char* name_;
  std::atomic<void*> address_{nullptr};
};

/// MPI_Win_get_attr of either interface; `original` is the MPI's own.
using WinGetAttr = void(Win win, Int keyval, Aint* value, Logical flag, int* ierror);
void win_get_attr(WinGetAttr* original, const void* caller, Win win, Int keyval, Aint* value,
                  Logical flag, int* ierror);

template <class... Parameters>
inline constexpr bool travel_as_pointers = ((sizeof(Parameters) == sizeof(void*) &&
                                             std::is_trivially_copyable_v<Parameters>)&&...);
static_assert(travel_as_pointers<Int, Wide, Win, Buffer, Out<Kind::win>, Logical>);

}  // namespace penstock::mpi::fortran

#define PENSTOCK_UNPACK(...) __VA_ARGS__
#define PENSTOCK_AND_IERROR(...) __VA_ARGS__ __VA_OPT__(, ) int* ierror
#define PENSTOCK_PASS_IERROR(...) (__VA_ARGS__ __VA_OPT__(, ) ierror)

/// Defines an entry point `symbol`: `call` where `serves` says so, else the MPI's own function.
#define PENSTOCK_ENTRY(symbol, serves, call, parameters, arguments)                    \
  PENSTOCK_EXPORT void symbol(PENSTOCK_AND_IERROR parameters) {                        \
    const void* caller = __builtin_return_address(0);                                  \
    if (serves(caller)) return report(ierror, call);                                   \
    static constinit Next<decltype(symbol)> next(#symbol);                             \
    if (auto* function = next(caller)) return function PENSTOCK_PASS_IERROR arguments; \
    report(ierror, no_function);                                                       \
  }
/// Another name for it.
#define PENSTOCK_ALIAS(name, symbol) \
  PENSTOCK_EXPORT decltype(symbol) name __attribute__((alias(#symbol)));
