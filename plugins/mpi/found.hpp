// A function of the MPI, looked up by name at its first use.
#pragma once

#include <atomic>

#include "export.hpp"

namespace penstock::mpi {

template <class Function>
class Found {
 public:
  /// Null if this MPI does not have the function.
  Function* operator()(const char* name, const void* caller) {
    Function* known = function_.load(std::memory_order_relaxed);
    if (known != nullptr) return known;
    usable(caller);
    known = original<Function*>(nullptr, name, caller);
    function_.store(known, std::memory_order_relaxed);
    return known;
  }

 private:
  std::atomic<Function*> function_{nullptr};
};

}  // namespace penstock::mpi
