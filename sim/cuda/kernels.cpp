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

void add_kernel(Kernel kernel) {
  const std::lock_guard<std::mutex> guard(table().mutex);
  table().kernels.push_back(std::move(kernel));
}

const Kernel* find_kernel(const std::string& name) {
  const std::lock_guard<std::mutex> guard(table().mutex);
  for (const Kernel& kernel : table().kernels)
    if (kernel.name == name) return &kernel;
  return nullptr;
}

}  // namespace penstock::sim::cuda
