#include "schedule/placement.hpp"

#include <array>
#include <bit>

namespace penstock::coll {

namespace {

constexpr std::uint32_t max_devices = 16, first_counted = 3;
/// A row of the table: for 3, 4, ... devices, one bit for each size.
using Row = std::array<std::uint16_t, max_devices - first_counted + 1>;
/// The table has rows for 2, 3, ... 16 and 32 ranks.
constexpr std::uint32_t max_counted_ranks = 16, many_ranks = 32;
using Rows = std::array<Row, max_counted_ranks>;

/// Cases in which the model finds that the last device makes a call slower on some platform.
struct Slower {
  Collective collective;
  Rows rows;
};
constexpr Slower slower[] = {
#include "schedule/placement_table.inc"
};

std::uint32_t row_of(std::uint32_t ranks) {
  if (ranks >= many_ranks) return max_counted_ranks - 1;
  return std::clamp(ranks, 2u, max_counted_ranks) - 2;
}

/// The nearest of the table's sizes, which are 64 KB, 128 KB, ... 128 MB for all data of a rank.
std::uint32_t column_of(const Problem& problem) {
  constexpr unsigned least = 16, most = 27;
  const bool shares = all_spread(problem.collective);
  // Ranks that do not know the size of a call assume a long one.
  if (!problem.max_block_bytes) return most - least;
  const std::uint64_t bytes = std::min<std::uint64_t>(*problem.max_block_bytes, 1ull << most) *
                              (shares ? problem.ranks : 1);
  const auto log = static_cast<unsigned>(std::bit_width(bytes + bytes / 2)) - 1;
  return std::clamp(log, least, most) - least;
}

}  // namespace

std::uint32_t devices_for(const Problem& problem, Variant variant, std::uint32_t devices) {
  if (variant == Variant::naive) return 1;
  devices = std::min(devices, max_devices);
  if (devices < first_counted || problem.ranks < 2) return devices;
  for (const auto& [collective, rows] : slower) {
    if (collective != problem.collective) continue;
    const Row& row = rows[row_of(problem.ranks)];
    const std::uint32_t column = column_of(problem);
    while (devices >= first_counted && (row[devices - first_counted] >> column & 1) != 0) --devices;
  }
  return devices;
}

}  // namespace penstock::coll
