// Prints src/schedule/placement_table.inc: where a collective passes over the last device. Says on
// standard error how calls fare by it, and how by the table that is built in.
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>

#include "base/format.hpp"
#include "model/devices.hpp"
#include "schedule/placement.hpp"
#include "schedule/uniform.hpp"

namespace penstock::model {
namespace {

using coll::Collective;
using Used = std::vector<std::uint32_t>;

constexpr std::array collectives{
    Collective::broadcast, Collective::gather,   Collective::scatter,        Collective::reduce,
    Collective::allgather, Collective::alltoall, Collective::reduce_scatter, Collective::allreduce};
constexpr std::array platforms{"cccl", "gpu", "cpu"};
constexpr std::uint32_t max_devices = 16, first_counted = 3;
constexpr unsigned min_log = 16, max_log = 27;

/// Longer calls take minutes: beyond eight devices they do as those of 16 MB.
constexpr std::uint32_t max_counted(unsigned log) {
  return log <= 24 ? max_devices : 8;
}

/// How calls fare on one platform.
struct Counts {
  unsigned cases = 0, with_one_more = 0, than_all = 0;
  double worst_with_one_more = 1, worst_than_all = 1;

  void add(const SecondsByDevices& seconds, const Used& used) {
    constexpr double rounding = 1.005;
    for (std::size_t i = 1; i < seconds.size(); ++i) {
      const double now = seconds[used[i] - 1], before = seconds[used[i - 1] - 1];
      ++cases;
      with_one_more += now > before * rounding;
      than_all += now > seconds[i] * rounding;
      worst_with_one_more = std::max(worst_with_one_more, now / before);
      worst_than_all = std::max(worst_than_all, now / seconds[i]);
    }
  }
  void add(const Counts& other) {
    cases += other.cases;
    with_one_more += other.with_one_more;
    than_all += other.than_all;
    worst_with_one_more = std::max(worst_with_one_more, other.worst_with_one_more);
    worst_than_all = std::max(worst_than_all, other.worst_than_all);
  }
};

/// By platform: with all devices, by the table that is built in, and by the new one.
using CountsByTable = std::array<std::array<Counts, 3>, platforms.size()>;

Used all_of(std::size_t devices) {
  Used used;
  while (used.size() < devices) used.push_back(static_cast<std::uint32_t>(used.size()) + 1);
  return used;
}

Used built_in(const PoolCase& call, std::size_t devices) {
  const auto problem = coll::uniform_problem(call.collective, call.ranks, 0, 0, call.block);
  Used used = all_of(devices);
  for (std::uint32_t& number : used)
    number = coll::devices_for(problem, coll::Variant::all, number);
  return used;
}

/// A collective on so many ranks.
struct Row {
  Collective collective;
  std::uint32_t ranks;
  std::array<std::uint32_t, max_devices> passed_over{};  ///< by devices less 1, a bit for each size
  CountsByTable counts;

  Result<Used> best_of(const PoolCase& call, std::uint32_t most) {
    std::vector<SecondsByDevices> seconds;
    for (const char* name : platforms) {
      const PlatformSet* set = PENSTOCK_TRY(find_platform(name));
      seconds.push_back(PENSTOCK_TRY(seconds_by_devices(*set, call, most)));
    }
    const Used best = devices_to_use(seconds);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      counts[i][0].add(seconds[i], all_of(most));
      counts[i][1].add(seconds[i], built_in(call, most));
      counts[i][2].add(seconds[i], best);
    }
    return best;
  }

  Result<void> fill() {
    for (unsigned log = min_log; log <= max_log; ++log) {
      const PoolCase call{collective, ranks, 1, block_of(collective, ranks, 1ull << log)};
      const Used used = PENSTOCK_TRY(best_of(call, max_counted(log)));
      const unsigned bit = log - min_log;
      for (std::uint32_t i = 0; i < max_devices; ++i) {
        const bool as_shorter = bit > 0 && (passed_over[i] >> (bit - 1) & 1) != 0;
        passed_over[i] |= std::uint32_t{i < used.size() ? used[i] <= i : as_shorter} << bit;
      }
    }
    return {};
  }

  std::string text() const {
    std::string words;
    for (std::uint32_t i = first_counted - 1; i < max_devices; ++i)
      words += fmt::format("{}{:#05x}", words.empty() ? "" : ", ", passed_over[i]);
    return fmt::format("     {{{{{}}}}},  // {} ranks\n", words, ranks);
  }
};

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const Collective collective : collectives)
    for (const std::uint32_t ranks : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32})
      rows.push_back({collective, ranks, {}, {}});
  return rows;
}

/// By several threads. False where the model failed: it says why.
bool fill(std::vector<Row>& rows) {
  constexpr unsigned threads = 8;
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> good = true;
  const auto work = [&] {
    for (std::size_t i = next++; i < rows.size(); i = next++) {
      // the longest ones first, of many ranks
      const std::size_t last = rows.size() / collectives.size() - 1;
      Row& row = rows[i % collectives.size() * (last + 1) + last - i / collectives.size()];
      if (const auto filled = row.fill(); !filled) {
        fmt::print(stderr, "{}\n", filled.error().message);
        good = false;
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < threads; ++i) workers.emplace_back(work);
  }
  return good;
}

void print(const std::vector<Row>& rows) {
  fmt::print("// Printed by build/bin/print_placement_table.\n");
  for (const Collective collective : collectives) {
    fmt::print("{{Collective::{},\n {{{{\n", name_of(collective));
    for (const Row& row : rows)
      if (row.collective == collective) fmt::print("{}", row.text());
    fmt::print(" }}}}}},\n");
  }
}

void say_how_calls_fare(const std::vector<Row>& rows) {
  constexpr std::array tables{"all devices", "built in", "printed"};
  for (std::size_t i = 0; i < platforms.size(); ++i)
    for (std::size_t k = 0; k < tables.size(); ++k) {
      Counts sum;
      for (const Row& row : rows) sum.add(row.counts[i][k]);
      fmt::print(stderr,
                 "{:5} {:12} {:6} cases; slower with one device more: {:4}, at worst {:.3f}; than "
                 "with all: {:4}, at worst {:.3f}\n",
                 platforms[i], tables[k], sum.cases, sum.with_one_more, sum.worst_with_one_more,
                 sum.than_all, sum.worst_than_all);
    }
}

}  // namespace
}  // namespace penstock::model

int main() {
  auto rows = penstock::model::all_rows();
  if (!penstock::model::fill(rows)) return 1;
  penstock::model::print(rows);
  penstock::model::say_how_calls_fare(rows);
}
