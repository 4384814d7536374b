#include "abi.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.hpp"

namespace penstock::mpi {

namespace detail {
Abi current_abi = Abi::mpich;
Constants current_constants;
}  // namespace detail

namespace {

constexpr std::size_t op_count = 14;
std::array<NamedOp, op_count> ops;

constexpr Constants mpich_constants = {
#define PENSTOCK_INT(name, mpi_name, mpich, open_mpi, standard) .name = mpich,
#define PENSTOCK_HANDLE(name, mpi_name, mpich, open_mpi, standard) .name = mpich,
#define PENSTOCK_POINTER(name, mpi_name, mpich, open_mpi, standard) .name = nullptr,
#include "abi_table.inc"
#undef PENSTOCK_INT
#undef PENSTOCK_HANDLE
};

// constants_of() reads the handles from the library.
constexpr Constants open_mpi_constants = {
#define PENSTOCK_INT(name, mpi_name, mpich, open_mpi, standard) .name = open_mpi,
#define PENSTOCK_HANDLE(name, mpi_name, mpich, open_mpi, standard) .name = absent_handle,
#include "abi_table.inc"
#undef PENSTOCK_INT
#undef PENSTOCK_HANDLE
};

constexpr Constants standard_constants = {
#define PENSTOCK_INT(name, mpi_name, mpich, open_mpi, standard) .name = standard,
#define PENSTOCK_HANDLE(name, mpi_name, mpich, open_mpi, standard) .name = standard,
#include "abi_table.inc"
#undef PENSTOCK_INT
#undef PENSTOCK_HANDLE
#undef PENSTOCK_POINTER
};

void* pointer_of(std::intptr_t number) {
  return reinterpret_cast<void*>(number);
}

/// Sets the pointers, which a constant expression cannot make from numbers.
void set_pointers(Constants* made, Abi abi) {
  const auto choose = [abi](std::intptr_t mpich, std::intptr_t open_mpi, std::intptr_t standard) {
    return pointer_of(abi == Abi::mpich ? mpich : abi == Abi::open_mpi ? open_mpi : standard);
  };
#define PENSTOCK_INT(name, mpi_name, mpich, open_mpi, standard)
#define PENSTOCK_HANDLE(name, mpi_name, mpich, open_mpi, standard)
#define PENSTOCK_POINTER(name, mpi_name, mpich, open_mpi, standard) \
  made->name = choose(mpich, open_mpi, standard);
#include "abi_table.inc"
#undef PENSTOCK_INT
#undef PENSTOCK_HANDLE
#undef PENSTOCK_POINTER
}

struct HandleSymbol {
  const char* mpi_name;
  const char* symbol;
  Handle Constants::*member;
};
constexpr HandleSymbol handle_symbols[] = {
#define PENSTOCK_INT(name, mpi_name, mpich, open_mpi, standard)
#define PENSTOCK_HANDLE(name, mpi_name, mpich, open_mpi, standard) \
  {#mpi_name, #open_mpi, &Constants::name},
#define PENSTOCK_POINTER(name, mpi_name, mpich, open_mpi, standard)
#include "abi_table.inc"
#undef PENSTOCK_INT
#undef PENSTOCK_HANDLE
#undef PENSTOCK_POINTER
};

Result<void> take_handles(Constants* made, const std::function<void*(const char*)>& symbol,
                          const std::string& version) {
  for (const HandleSymbol& entry : handle_symbols) {
    void* address = symbol(entry.symbol);
    if (address == nullptr) {
      if (entry.member == &Constants::errors_abort) continue;  // new in MPI 4.0
      return fail(
          ErrorCode::mismatch,
          "the Open MPI of this process ({}) has no {}, the address of {}: use Open MPI 4.1 or "
          "5.0",
          version, entry.symbol, entry.mpi_name);
    }
    made->*entry.member = reinterpret_cast<Handle>(address);
  }
  return {};
}

void list_ops(const Constants& c) {
  ops = {{{"MPI_MAX", c.max},
          {"MPI_MIN", c.min},
          {"MPI_SUM", c.sum},
          {"MPI_PROD", c.prod},
          {"MPI_LAND", c.land},
          {"MPI_BAND", c.band},
          {"MPI_LOR", c.lor},
          {"MPI_BOR", c.bor},
          {"MPI_LXOR", c.lxor},
          {"MPI_BXOR", c.bxor},
          {"MPI_MAXLOC", c.maxloc},
          {"MPI_MINLOC", c.minloc},
          {"MPI_REPLACE", c.replace},
          {"MPI_NO_OP", c.no_op}}};
}

}  // namespace

const char* abi_name(Abi abi) {
  switch (abi) {
    case Abi::mpich:
      return "MPICH's ABI";
    case Abi::open_mpi:
      return "Open MPI's ABI";
    case Abi::standard:
      break;
  }
  return "the standard ABI of MPI 5.0";
}

std::span<const NamedOp> predefined_ops() {
  return ops;
}

bool is_predefined_op(Handle op) {
  return std::any_of(ops.begin(), ops.end(), [op](const NamedOp& known) { return known.op == op; });
}

Result<Constants> constants_of(Abi abi, const std::function<void*(const char*)>& symbol,
                               const std::string& version) {
  Constants made = abi == Abi::mpich      ? mpich_constants
                   : abi == Abi::open_mpi ? open_mpi_constants
                                          : standard_constants;
  set_pointers(&made, abi);
  if (abi == Abi::open_mpi) {
    PENSTOCK_TRY(take_handles(&made, symbol, version));
  }
  // Intel MPI exchanges two values; see abi_table.inc.
  if (abi == Abi::standard && version.find("Intel") != std::string::npos) {
    std::swap(made.errors_return, made.errors_abort);
  }
  return made;
}

void use_abi(Abi abi, const Constants& constants) {
  detail::current_abi = abi;
  detail::current_constants = constants;
  list_ops(constants);
}

}  // namespace penstock::mpi
