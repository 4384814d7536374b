// Other tools on MPI's profiling interface, in the same process. To them this library stands in the
// place of the MPI: it has PMPI_* too, so calls that a tool passes on come here, whether the tool
// is in the program, was preloaded, or is a library behind us. A tool before us needs nothing. One
// behind us would not see the program's calls, which find our MPI_* first. So our MPI_* calls it
// (docs/decisions/0039).
#pragma once

#include <atomic>

namespace penstock::mpi {

/// The function `name`, such as "MPI_Wait", that the program would have called without this
/// library, if it is a tool's; `no_tool` if it is the MPI's. Null while no MPI is loaded, so that
/// this cannot be decided yet. `caller`: the return address of the call.
const void* tool_behind(const char* name, const void* caller);
extern const char no_tool;

/// tool_behind(), looked up once.
template <class Function>
class Tool {
 public:
  /// Null if no tool has the function.
  Function* operator()(const char* name, const void* caller) {
    const void* known = function_.load(std::memory_order_relaxed);
    if (known == &no_tool) [[likely]]
      return nullptr;
    if (known == nullptr) {
      known = tool_behind(name, caller);
      function_.store(known, std::memory_order_relaxed);
    }
    if (known == &no_tool) return nullptr;
    return reinterpret_cast<Function*>(const_cast<void*>(known));  // NOLINT: of dlsym
  }

 private:
  std::atomic<const void*> function_{nullptr};
};

}  // namespace penstock::mpi
