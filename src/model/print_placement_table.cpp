// Prints src/coll/placement_table.inc: where one device more makes a collective slower.
#include <cstdio>

#include "base/format.hpp"
#include "model/devices.hpp"

namespace penstock::model {
namespace {

using coll::Collective;

constexpr std::uint32_t max_devices = 16, first_counted = 3;
constexpr unsigned min_log = 16, max_log = 27;

/// For each number of devices a bit for each size.
std::vector<std::uint32_t> row_of(const PlatformSet& set, Collective collective,
                                  std::uint32_t ranks) {
  std::vector<std::uint32_t> row(max_devices);
  for (unsigned log = min_log; log <= max_log; ++log) {
    const PoolCase call{collective, ranks, 1, block_of(collective, ranks, 1ull << log)};
    const auto seconds = seconds_by_devices(set, call, max_devices);
    if (!seconds) {
      fmt::print(stderr, "{}\n", seconds.error().message);
      continue;
    }
    const auto slower = slower_with_last(*seconds);
    for (std::size_t i = 0; i < slower.size(); ++i)
      row[i] |= std::uint32_t{slower[i]} << (log - min_log);
  }
  return {row.begin() + (first_counted - 1), row.end()};
}

void print(const PlatformSet& set, Collective collective) {
  fmt::print("{{Collective::{},\n {{{{\n", name_of(collective));
  for (const std::uint32_t ranks : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32}) {
    std::string words;
    for (const std::uint32_t bits : row_of(set, collective, ranks))
      words += fmt::format("{}{:#05x}", words.empty() ? "" : ", ", bits);
    fmt::print("     {{{{{}}}}},  // {} ranks\n", words, ranks);
    std::fflush(stdout);
  }
  fmt::print(" }}}}}},\n");
}

}  // namespace
}  // namespace penstock::model

int main() {
  using penstock::coll::Collective;
  const auto set = penstock::model::find_platform("gpu");
  if (!set) return 1;
  fmt::print("// Printed by build/bin/print_placement_table.\n");
  for (const Collective collective :
       {Collective::broadcast, Collective::gather, Collective::scatter, Collective::reduce,
        Collective::allgather, Collective::alltoall, Collective::reduce_scatter,
        Collective::allreduce})
    penstock::model::print(**set, collective);
}
