// Exports each function of NCCL's interface as pncclX, with ncclX as a weak alias, as tools expect.
#pragma once

#include <exception>

#include "nccl/outcome.hpp"

#define PENSTOCK_NCCL(type, name, arguments)                                                     \
  extern "C" __attribute__((visibility("default"))) type p##name arguments;                      \
  extern "C" __attribute__((weak, alias("p" #name), visibility("default"))) type name arguments; \
  type p##name arguments

namespace penstock::nccl {

/// Runs `body`; turns an exception into an error, since none may reach the program.
template <class Body>
Result guarded(const char* call, const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return failed(internal_error, std::string(call) + ": " + error.what());
  }
}

}  // namespace penstock::nccl
