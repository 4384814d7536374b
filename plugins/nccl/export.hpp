// Functions of NCCL's interface: pncclX, and ncclX as a weak name for it, as tools expect.
#pragma once

#include <exception>

#include "nccl/outcome.hpp"

#define PENSTOCK_NCCL(type, name, arguments)                                                     \
  extern "C" __attribute__((visibility("default"))) type p##name arguments;                      \
  extern "C" __attribute__((weak, alias("p" #name), visibility("default"))) type name arguments; \
  type p##name arguments

namespace penstock::nccl {

/// Nothing is thrown into the program.
template <class Body>
Result guarded(const char* call, const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return failed(internal_error, std::string(call) + ": " + error.what());
  }
}

}  // namespace penstock::nccl
