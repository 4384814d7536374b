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
  unsigned blocks = 1, threads = 1;  ///< of x; y and z are 1
};

struct Kernel {
  std::string name;
  std::vector<std::size_t> argument_bytes;
  /// All of the grid. Arguments are those of the launch; device pointers are reached by Memory.
  void (*run)(const Grid& grid, void* const* arguments) = nullptr;
  mutable std::atomic<unsigned> launches{0};  ///< and captures

  Kernel(std::string its_name, std::vector<std::size_t> bytes,
         void (*its_run)(const Grid& grid, void* const* arguments))
      : name(std::move(its_name)), argument_bytes(std::move(bytes)), run(its_run) {}
};

void add_kernel(const std::string& name, std::size_t argument_bytes,
                void (*run)(const Grid& grid, void* const* arguments));
/// Of all kernels whose names begin so.
unsigned launches_of(const std::string& begin);
const Kernel* find_kernel(const std::string& name);

/// Those of gpu/combine.cu, gpu/fused.cu and gpu/words.cu, compiled for the host.
void add_combine_kernels();
void add_fused_kernels();
void add_word_kernels();

}  // namespace penstock::sim::cuda
