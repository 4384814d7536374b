// Memory of the process itself: placed by the kernel, or bound to a NUMA node.
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "arch/arch.hpp"
#include "base/format.hpp"
#include "bench/stream/libraries.hpp"
#include "bench/stream/targets.hpp"
#include "bench/stream/topology.hpp"

namespace penstock::bench::stream {

namespace {

class OwnMemory : public Target {
 public:
  OwnMemory(const TargetSpec& spec, double* at, std::uint64_t elements) : spec_(spec) {
    const std::uint64_t each = array_bytes(elements) / sizeof(double);
    arrays_ = {at, at + each, at + 2 * each, elements};
  }
  Arrays arrays() const override { return arrays_; }
  Result<void> run(const Share& share) override {
    if (spec_.store == Store::plain) return Target::run(share);
    const arch::Table& with = arch::select();
    run_in_blocks(share, with.nt_copy);
    with.store_fence();
    return {};
  }
  /// Each array begins on a page.
  static std::uint64_t array_bytes(std::uint64_t elements) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return (elements * sizeof(double) + page - 1) / page * page;
  }

 protected:
  TargetSpec spec_;
  Arrays arrays_;
};

class PlainMemory final : public OwnMemory {
 public:
  using OwnMemory::OwnMemory;
  ~PlainMemory() override { munmap(arrays_.a, 3 * array_bytes(arrays_.elements)); }
};

class NumaMemory final : public OwnMemory {
 public:
  NumaMemory(const TargetSpec& spec, const NumaLibrary& library, double* at, std::uint64_t elements)
      : OwnMemory(spec, at, elements), library_(library) {}
  ~NumaMemory() override { library_.numa_free(arrays_.a, 3 * array_bytes(arrays_.elements)); }

  /// Asks the kernel where the pages are: it is an error if bound pages lie elsewhere.
  Result<void> filled() override {
    constexpr std::size_t samples = 96;
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t pages = 3 * array_bytes(arrays_.elements) / page;
    const std::size_t count = std::min<std::uint64_t>(samples, pages);
    void* asked[samples];
    int nodes[samples];
    for (std::size_t i = 0; i < count; ++i)
      asked[i] = reinterpret_cast<std::byte*>(arrays_.a) + i * pages / count * page;
    if (library_.numa_move_pages(0, count, asked, nullptr, nodes, 0) != 0) {
      facts_ =
          fmt::format("the kernel does not tell where the pages are ({})", std::strerror(errno));
      return {};
    }
    const auto here = std::count(nodes, nodes + count, spec_.node);
    if (static_cast<std::size_t>(here) != count)
      return fail(ErrorCode::no_space,
                  "{} of {} pages are on node {}: free memory of it, or give "
                  "fewer --elements",
                  here, count, spec_.node);
    facts_ = fmt::format("all of {} pages asked for are on node {}", count, spec_.node);
    return {};
  }
  std::string facts() const override { return facts_; }

 private:
  const NumaLibrary& library_;
  std::string facts_;
};

tl::unexpected<Error> no_room(std::uint64_t elements, const std::string& where) {
  return fail(ErrorCode::no_space,
              "cannot have three arrays of {} elements {}: give fewer "
              "--elements",
              elements, where);
}

}  // namespace

OpenedTarget open_memory(const TargetSpec& spec, std::uint64_t elements) {
  void* const at = mmap(nullptr, 3 * OwnMemory::array_bytes(elements), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return no_room(elements, "in memory");
  return std::make_unique<PlainMemory>(spec, static_cast<double*>(at), elements);
}

OpenedTarget open_numa(const TargetSpec& spec, std::uint64_t elements) {
  const NumaLibrary& library = *PENSTOCK_TRY(numa_library());
  void* const at = library.numa_alloc_onnode(3 * OwnMemory::array_bytes(elements), spec.node);
  if (at == nullptr) return no_room(elements, fmt::format("on node {}", spec.node));
  return std::make_unique<NumaMemory>(spec, library, static_cast<double*>(at), elements);
}

std::uint64_t free_memory() {
  std::uint64_t bytes = 0;
  const auto topology = read_topology();
  if (topology)
    for (const Node& node : topology->nodes) bytes += node.free;
  return bytes / 4 * 3;
}

Result<std::uint64_t> memory_room() {
  return free_memory();
}

Result<std::uint64_t> numa_room(const TargetSpec& spec) {
  PENSTOCK_TRY(numa_library());
  const Topology topology = PENSTOCK_TRY(read_topology());
  const Node* const node = topology.node(spec.node);
  if (node != nullptr && node->bytes != 0) return node->free / 4 * 3;
  std::string known;
  for (const Node* each : topology.memories()) known += fmt::format(" numa:{}", each->number);
  return fail(ErrorCode::not_found, "this machine has no memory on NUMA node {}; it has{}",
              spec.node, known);
}

Result<std::uint64_t> free_in(const std::string& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0)
    return fail(ErrorCode::not_found, "{}: {}: name a folder that is there", folder,
                std::strerror(errno));
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize / 4 * 3;
}

}  // namespace penstock::bench::stream
