#include "sim/cuda/kernels.hpp"

#include <deque>
#include <mutex>

namespace penstock::sim::cuda {

namespace {

struct Table {
  std::mutex mutex;
  std::deque<Kernel> kernels;
};

Table& table() {
  static Table kernels;
  return kernels;
}

}  // namespace

void add_kernel(const std::string& name, std::size_t argument_bytes,
                void (*run)(const Grid& grid, void* const* arguments)) {
  const std::lock_guard<std::mutex> guard(table().mutex);
  table().kernels.emplace_back(name, std::vector<std::size_t>{argument_bytes}, run);
}

unsigned launches_of(const std::string& begin) {
  const std::lock_guard<std::mutex> guard(table().mutex);
  unsigned count = 0;
  for (const Kernel& kernel : table().kernels)
    if (kernel.name.starts_with(begin)) count += kernel.launches;
  return count;
}

const Kernel* find_kernel(const std::string& name) {
  const std::lock_guard<std::mutex> guard(table().mutex);
  for (const Kernel& kernel : table().kernels)
    if (kernel.name == name) return &kernel;
  return nullptr;
}

}  // namespace penstock::sim::cuda
