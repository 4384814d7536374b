#include "bench/fi_environment.hpp"

#include <cstdlib>
#include <filesystem>

namespace penstock::bench {

void find_provider(const char* program) {
  std::error_code error;
  const auto self = std::filesystem::canonical("/proc/self/exe", error);
  const auto beside = (error ? std::filesystem::path(program) : self).parent_path() / "../lib";
  setenv("FI_PROVIDER_PATH", beside.lexically_normal().c_str(), 0);
}

void use_pool(const std::string& spec, const char* job, unsigned node) {
  setenv("PENSTOCK_POOL", spec.c_str(), 1);
  setenv("PENSTOCK_JOB", job, 1);
  setenv("PENSTOCK_NODE", std::to_string(node).c_str(), 1);
}

}  // namespace penstock::bench
