// Kernels of the stand-in GPU: functions of the host, found by the name that cuModuleGetFunction
// asks for.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "sim/cuda/memory.hpp"

namespace penstock::sim::cuda {

struct Grid {
  unsigned blocks = 1, threads = 1;  ///< in x; y and z are 1
};

struct Kernel {
  std::string name;
  std::vector<std::size_t> argument_bytes;
  /// Runs the whole grid. Arguments are those of the launch; Memory resolves device pointers.
  void (*run)(const Grid& grid, void* const* arguments) = nullptr;
  mutable std::atomic<unsigned> launches{0};  ///< also counts captures

  Kernel(std::string its_name, std::vector<std::size_t> bytes,
         void (*its_run)(const Grid& grid, void* const* arguments))
      : name(std::move(its_name)), argument_bytes(std::move(bytes)), run(its_run) {}
};

void add_kernel(const std::string& name, std::size_t argument_bytes,
                void (*run)(const Grid& grid, void* const* arguments));
/// Launches of all kernels whose names begin with `begin`.
unsigned launches_of(const std::string& begin);
const Kernel* find_kernel(const std::string& name);

/// Adds the kernels of gpu/kernels.cu, compiled for the host.
void add_combine_kernels();
void add_fused_kernels();
void add_word_kernels();

}  // namespace penstock::sim::cuda
