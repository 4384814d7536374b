#include "stayed.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <memory>

#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::mpi {

namespace {

constexpr const char* names[] = {
#define PENSTOCK_COLLECTIVE(name, lower, n, kinds) "MPI_" #name,
#define PENSTOCK_COUNTED(name, lower, n, kinds) "MPI_" #name,
#include "collective_table.inc"
#undef PENSTOCK_COLLECTIVE
#undef PENSTOCK_COUNTED
};

constexpr const char* reasons[] = {
    "the pool does not do this call", "PENSTOCK_COLL leaves it to the MPI",
    "a communicator's first calls, or one that the pool does not serve",
    "a type, an operation or a size that the pool does not do"};

std::array<std::array<std::atomic<std::uint64_t>, std::size(reasons)>, std::size(names)> counts;

}  // namespace

void note_stayed(CollectiveCall call, Why why) {
  counts[static_cast<std::size_t>(call)][static_cast<std::size_t>(why)].fetch_add(
      1, std::memory_order_relaxed);
}

void write_stayed() {
  const std::string folder = base::env_text("PENSTOCK_EXIT_LOG");
  if (folder.empty()) return;
  std::string lines;
  for (std::size_t call = 0; call < std::size(names); ++call)
    for (std::size_t why = 0; why < std::size(reasons); ++why)
      if (const std::uint64_t count = counts[call][why].load(std::memory_order_relaxed))
        lines += fmt::format("{} {} times: {}\n", names[call], count, reasons[why]);
  if (lines.empty()) return;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen((folder + "/stayed").c_str(), "wx"), std::fclose);
  if (file != nullptr) std::fwrite(lines.data(), 1, lines.size(), file.get());
}

}  // namespace penstock::mpi
