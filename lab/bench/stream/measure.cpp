#include "bench/stream/measure.hpp"

#include <signal.h>

#include <algorithm>
#include <array>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "bench/stream/team.hpp"

namespace penstock::bench::stream {

namespace {

constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};
volatile sig_atomic_t signal_that_came = 0;
std::array<struct sigaction, signals.size()> actions_before;

Result<void> not_interrupted() {
  if (Interruptible::asked() == 0) return {};
  return fail(ErrorCode::unavailable, "interrupted");
}

/// Runs one kernel on all threads; returns the seconds.
Result<double> time_kernel(Target& target, Kernel kernel, unsigned threads) {
  const Arrays arrays = target.arrays();
  std::vector<Result<void>> done(threads);
  const std::uint64_t start = base::now_ns();
  run_team(threads, [&](unsigned index) {
    done[index] = target.run(share_of(kernel, arrays, index, threads));
  });
  const std::uint64_t end = base::now_ns();
  for (const auto& each : done)
    if (!each) return unexpected(each.error());
  return static_cast<double>(end - start) * 1e-9;
}

Result<void> prepare(Target& target, const Run& run) {
  const auto threads = static_cast<unsigned>(run.cpus.size());
  const std::uint64_t elements = target.arrays().elements;
  if (run.first_touch)
    run_team(threads, [&](unsigned index) { target.fill(part_of(elements, index, threads)); });
  else
    target.fill({0, elements});
  run_team(threads, [&](unsigned index) { target.double_a(part_of(elements, index, threads)); });
  return target.filled();
}

Timing timing_of(Kernel kernel, const std::vector<double>& seconds, std::uint64_t elements) {
  Timing timing{.kernel = kernel, .best_s = seconds[1]};
  for (std::size_t i = 1; i < seconds.size(); ++i) {
    timing.best_s = std::min(timing.best_s, seconds[i]);
    timing.worst_s = std::max(timing.worst_s, seconds[i]);
    timing.mean_s += seconds[i] / static_cast<double>(seconds.size() - 1);
  }
  timing.best_MBps = 1e-6 * static_cast<double>(counted_bytes(kernel, elements)) / timing.best_s;
  return timing;
}

}  // namespace

Result<Measured> measure(Target& target, const Run& run) {
  const PinnedTeam pinned(run.cpus);
  const auto threads = static_cast<unsigned>(run.cpus.size());
  PENSTOCK_TRY(prepare(target, run));
  std::vector<std::vector<double>> seconds(run.kernels.size());
  for (unsigned i = 0; i < run.ntimes; ++i)
    for (std::size_t k = 0; k < run.kernels.size(); ++k) {
      PENSTOCK_TRY(not_interrupted());
      seconds[k].push_back(PENSTOCK_TRY(time_kernel(target, run.kernels[k], threads)));
    }
  Measured measured;
  for (std::size_t k = 0; k < run.kernels.size(); ++k)
    measured.timings.push_back(timing_of(run.kernels[k], seconds[k], target.arrays().elements));
  measured.facts = target.facts();
  measured.errors = PENSTOCK_TRY(target.compare(replay(run.kernels, run.ntimes)));
  if (measured.errors.small()) return measured;
  return fail(ErrorCode::mismatch,
              "the arrays are wrong after {} runs: mean relative errors {}; below {} is right",
              run.ntimes, measured.errors.text(), error_limit);
}

Interruptible::Interruptible() {
  signal_that_came = 0;
  struct sigaction action {};
  action.sa_handler = [](int number) { signal_that_came = number; };
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals.size(); ++i)
    sigaction(signals[i], &action, &actions_before[i]);
}

Interruptible::~Interruptible() {
  for (std::size_t i = 0; i < signals.size(); ++i)
    sigaction(signals[i], &actions_before[i], nullptr);
  signal_that_came = 0;
}

int Interruptible::asked() {
  return signal_that_came;
}

}  // namespace penstock::bench::stream
