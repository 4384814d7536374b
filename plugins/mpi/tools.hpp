// Other tools in this process that use MPI's profiling interface. For them this library takes the
// place of the MPI: it exports PMPI_* too, so it receives the calls that a tool passes on, whether
// the tool is in the program, preloaded, or a library after us. A tool before us needs nothing
// more. A tool after us would not see the program's calls, since they reach our MPI_* first; so our
// MPI_* calls the tool (docs/decisions/0039).
#pragma once

#include <atomic>

namespace penstock::mpi {

/// Returns the function `name`, such as "MPI_Wait", that the program would call without this
/// library if it belongs to a tool; `no_tool` if it is the MPI's; null if no MPI is loaded yet.
/// `caller`: the return address of the call.
const void* tool_behind(const char* name, const void* caller);
extern const char no_tool;

/// Caches the result of tool_behind().
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
    return reinterpret_cast<Function*>(const_cast<void*>(known));  // NOLINT: from dlsym
  }

 private:
  std::atomic<const void*> function_{nullptr};
};

}  // namespace penstock::mpi
