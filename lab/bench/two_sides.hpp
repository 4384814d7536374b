// Shared by the benchmarks with two sides.
#pragma once

#include "bench/bench_pool.hpp"
#include "bench/options.hpp"
#include "bench/pair_runner.hpp"
#include "bench/supervisor.hpp"

namespace penstock::bench {

/// Makes or opens the pool of `options` and runs a Bench in each of two processes: constructs it
/// with its side and `results`, calls its open with `opening...`, and measures `rounds` times.
template <class Bench, class Results, class... Opening>
Result<void> run_two_sides(const Options& options, coherence::Mode mode, std::size_t rounds,
                           Results& results, const Opening&... opening) {
  const auto bytes = PENSTOCK_TRY(options.size_bytes());
  const HeldSignals held;  // they pass through the supervisor's result, so that the pool is removed
  const auto pool = PENSTOCK_TRY(BenchPool::prepare(options.pool, bytes, mode));
  return run_pair(options.pair(), [&](Side& side) -> Result<void> {
    Bench bench(side, results);
    PENSTOCK_TRY(bench.open(pool.spec(), opening...));
    for (std::size_t round = 0; round < rounds; ++round) PENSTOCK_TRY(bench.round(round));
    side.meet();
    return {};
  });
}

}  // namespace penstock::bench
