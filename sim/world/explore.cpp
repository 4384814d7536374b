#include "sim/world/explore.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/env.hpp"
#include "sim/world/sites.hpp"

namespace penstock::sim {

namespace {

constexpr std::uint64_t trace_lines = 120;

/// The report of a run in a child process to its parent.
struct Outcome {
  bool reported = false;
  bool held = false;
  std::uint64_t operations = 0;
  std::uint64_t victim_operations = 0;
  char text[64 << 10] = {};
};

struct Fate {
  std::uint64_t dies_at = ~0ull;
  bool with_node = false;
  bool must_die = true;  ///< a victim that outlives it has shown nothing
};

void copy_text(Outcome& outcome, const std::string& text) {
  const std::size_t bytes = std::min(text.size(), sizeof outcome.text - 1);
  std::memcpy(outcome.text, text.data(), bytes);
  outcome.text[bytes] = 0;
}

void run_here(const Scenario& scenario, const FaultModel& faults, Device& device,
              ChoiceSource& choices, std::uint64_t seed, const Fate& fate, bool traced,
              Outcome& outcome) {
  World world(device, scenario.nodes, faults, choices, seed);
  if (traced) world.start_trace();
  try {
    scenario.body(world);
    Process* victim = world.victim();
    if (victim != nullptr) {
      victim->dies_at = fate.dies_at;
      victim->takes_node_along = fate.with_node;
    }
    world.run(scenario.max_steps);
    if (victim != nullptr) outcome.victim_operations = victim->operations;
    if (fate.dies_at != ~0ull && fate.must_die && (victim == nullptr || !victim->dead)) {
      throw Violation{"nobody died: there is no victim, or it has fewer operations"};
    }
    world.evict_left_dirty();
    if (scenario.after) {
      world.spawn(0, [&] { scenario.after(world); });
      world.run(scenario.max_steps);
    }
    outcome.held = true;
  } catch (const Violation& violation) {
    outcome.held = false;
    copy_text(outcome, violation.what + (traced ? "\n" + world.trace()->text(trace_lines) : ""));
  }
  outcome.operations = world.steps();
  outcome.reported = true;
}

/// Another text than a number would silently run something else than asked.
std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  if (!base::env_is_set(name)) return otherwise;
  const auto number = base::env_number(name);
  if (!number) throw std::invalid_argument(number.error().message);
  return *number;
}

/// The same seeds each time, so that a second run of the tests repeats the first; PENSTOCK_SIM_FROM
/// sets others.
std::uint64_t first_seed() {
  constexpr std::uint64_t usual = 1;
  return number_from_environment("PENSTOCK_SIM_SEED",
                                 number_from_environment("PENSTOCK_SIM_FROM", usual));
}

bool replays() {
  return base::env_is_set("PENSTOCK_SIM_SEED");
}

/// Suppresses messages of production code about intended deaths.
void silence() {
  const int nowhere = ::open("/dev/null", O_WRONLY);
  if (nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
}

/// Counts only this run's CPU time, not that of other programs; a run that blocks uses none.
void limit_time(unsigned cpu_seconds) {
  constexpr unsigned patience = 20;
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = cpu_seconds, .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
  ::alarm(patience * cpu_seconds);
}

/// Runs in child processes, so that dead ones leave nothing behind and a device needs no clearing.
class Runner {
 public:
  explicit Runner(const Scenario& scenario)
      : scenario_(scenario),
        device_(scenario.device_bytes),
        outcome_(static_cast<Outcome*>(::mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    base::warn_unknown_variables();
    if (scenario.prepare) scenario.prepare(device_.base());
  }
  ~Runner() { ::munmap(outcome_, sizeof(Outcome)); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Repeats a run that fails, for its trace.
  const Outcome& run(std::uint64_t seed, const Fate& fate) {
    run(seed, fate, replays());
    if (!outcome_->reported || outcome_->held || replays()) return *outcome_;
    const std::string violation = outcome_->text;
    if (run(seed, fate, true).held) {
      outcome_->held = false;
      copy_text(*outcome_, violation + "\nthe same seed held when it was repeated");
    }
    return *outcome_;
  }

 private:
  const Outcome& run(std::uint64_t seed, const Fate& fate, bool traced) {
    outcome_->reported = outcome_->held = false;
    outcome_->text[0] = 0;
    outcome_->operations = outcome_->victim_operations = 0;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      limit_time(scenario_.max_seconds);
      if (!replays()) silence();
      RandomChoices choices(seed);
      const FaultModel faults =
          scenario_.swarm ? scenario_.faults.swarm_of(seed) : scenario_.faults;
      run_here(scenario_, faults, device_, choices, seed, fate, traced, *outcome_);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!outcome_->reported) {
      copy_text(*outcome_, WIFSIGNALED(status)
                               ? fmt::format("the run was ended by signal {}", WTERMSIG(status))
                               : fmt::format("the run ended with status {}", status));
    }
    return *outcome_;
  }

  const Scenario& scenario_;
  Device device_;
  Outcome* outcome_;
};

void count(RunStatistics& statistics, const Scenario& scenario, const Outcome& outcome,
           std::uint64_t seed, const Fate& fate) {
  ++statistics.runs;
  statistics.operations += outcome.operations;
  if (outcome.held) return;
  if (statistics.failures++ > 0) return;
  std::string replay = fmt::format("PENSTOCK_SIM_SEED={}", seed);
  if (fate.dies_at != ~0ull) {
    replay += fmt::format(" PENSTOCK_SIM_KILL={}{}", fate.dies_at, fate.with_node ? "n" : "");
  }
  statistics.first_failure =
      fmt::format("{}: {}\nto replay: {}\n", scenario.name, outcome.text, replay);
}

/// PENSTOCK_SIM_KILL=17 or 17n (with its node).
std::optional<Fate> fate_from_environment() {
  std::string text = base::env_text("PENSTOCK_SIM_KILL");
  if (text.empty()) return std::nullopt;
  const bool with_node = text.ends_with('n');
  if (with_node) text.pop_back();
  const auto operation = base::parse_bytes(text);
  if (!operation)
    throw std::invalid_argument("PENSTOCK_SIM_KILL must be a number, or a number and n: unset it");
  return Fate{*operation, with_node};
}

}  // namespace

RunStatistics explore(const Scenario& scenario, std::uint64_t runs) {
  RunStatistics statistics;
  Runner runner(scenario);
  const std::uint64_t first = first_seed();
  runs = replays() ? 1 : number_from_environment("PENSTOCK_SIM_RUNS", runs);
  Fate fate = fate_from_environment().value_or(Fate{});
  fate.must_die = false;  // it may be meant for another scenario of the same test
  for (std::uint64_t i = 0; i < runs && statistics.failures == 0; ++i) {
    count(statistics, scenario, runner.run(first + i, fate), first + i, fate);
  }
  fmt::print("{}: {} seeds from {}, {} operations\n", scenario.name, statistics.runs, first,
             statistics.operations);
  report_sites();
  return statistics;
}

RunStatistics crash_everywhere(const Scenario& scenario, std::uint64_t max_runs) {
  RunStatistics statistics;
  Runner runner(scenario);
  const std::uint64_t first = first_seed();
  if (const auto fate = fate_from_environment()) {
    count(statistics, scenario, runner.run(first, *fate), first, *fate);
    return statistics;
  }
  max_runs = number_from_environment("PENSTOCK_SIM_RUNS", max_runs);
  RandomChoices draw(first);
  std::uint64_t seed = first;
  for (; statistics.failures == 0 && statistics.runs < max_runs; ++seed) {
    // Every point of the first seed, some points of each other seed.
    const Outcome& whole = runner.run(seed, Fate{});
    const std::uint64_t points = std::max<std::uint64_t>(1, whole.victim_operations);
    if (!whole.held) count(statistics, scenario, whole, seed, Fate{});  // it is not a death
    const bool every = seed == first && points <= max_runs / 4;
    const std::uint64_t wanted = every ? points : std::min<std::uint64_t>(points, 8);
    for (std::uint64_t i = 1; i <= wanted && statistics.failures == 0 && statistics.runs < max_runs;
         ++i) {
      const std::uint64_t at = every ? i : 1 + draw.below(points);
      for (const bool with_node : {false, true}) {
        const Fate fate{at, with_node};
        count(statistics, scenario, runner.run(seed, fate), seed, fate);
      }
    }
  }
  fmt::print("{}: {} deaths, alone and with the node, seeds {} to {}\n", scenario.name,
             statistics.runs, first, seed - 1);
  report_sites();
  return statistics;
}

namespace {

/// Replays the departures of one schedule and records how many choices there were.
class DeviationChoices : public ChoiceSource {
 public:
  struct Deviation {
    std::uint64_t choice;
    std::uint64_t value;
  };
  explicit DeviationChoices(const std::vector<Deviation>& wanted) : wanted_(wanted) {}
  bool chance(std::uint32_t per_mille) override { return per_mille != 0 && choose(2) != 0; }
  std::uint64_t below(std::uint64_t bound) override { return bound <= 1 ? 0 : choose(bound); }
  /// Number of options of each choice made.
  const std::vector<std::uint64_t>& options() const { return options_; }

 private:
  std::uint64_t choose(std::uint64_t bound) {
    constexpr std::uint64_t max_values = 4;  // for delays, and for the next process
    bound = std::min(bound, max_values);
    const std::uint64_t index = options_.size();
    options_.push_back(bound);
    if (next_ == wanted_.size() || wanted_[next_].choice != index) return 0;
    return wanted_[next_++].value;
  }

  const std::vector<Deviation>& wanted_;
  std::size_t next_ = 0;
  std::vector<std::uint64_t> options_;
};

class Exhaustion {
 public:
  Exhaustion(const Scenario& scenario, std::uint32_t deviations, std::uint64_t max_runs)
      : scenario_(scenario), deviations_(deviations), max_runs_(max_runs) {}

  RunStatistics all() {
    waiting_.emplace_back();
    while (!waiting_.empty() && statistics_.failures == 0 && statistics_.runs < max_runs_) {
      const Path path = std::move(waiting_.front());
      waiting_.pop_front();
      run(path);
    }
    fmt::print("{}: {} schedules with at most {} departures{}\n", scenario_.name, statistics_.runs,
               deviations_, waiting_.empty() ? "" : " (not all: the limit was reached)");
    report_sites();
    return statistics_;
  }

 private:
  using Path = std::vector<DeviationChoices::Deviation>;

  void run(const Path& path) {
    DeviationChoices choices(path);
    run(choices, false);
    ++statistics_.runs;
    statistics_.operations += outcome_.operations;
    if (!outcome_.held) {
      DeviationChoices again(path);
      run(again, true);
      std::string schedule;
      for (const auto& step : path) schedule += fmt::format(" {}={}", step.choice, step.value);
      ++statistics_.failures;
      statistics_.first_failure =
          fmt::format("{}: departures{}\n{}", scenario_.name, schedule, outcome_.text);
      return;
    }
    if (path.size() < deviations_) depart_once_more(path, choices.options());
  }

  void run(DeviationChoices& choices, bool traced) {
    Device device(scenario_.device_bytes);
    if (scenario_.prepare) scenario_.prepare(device.base());
    run_here(scenario_, scenario_.faults, device, choices, 1, Fate{}, traced, outcome_);
  }

  void depart_once_more(const Path& path, const std::vector<std::uint64_t>& options) {
    for (std::uint64_t at = path.empty() ? 0 : path.back().choice + 1; at < options.size(); ++at) {
      for (std::uint64_t value = 1; value < options[at]; ++value) {
        if (statistics_.runs + waiting_.size() > max_runs_) return;
        waiting_.push_back(path);
        waiting_.back().push_back({at, value});
      }
    }
  }

  const Scenario& scenario_;
  std::uint32_t deviations_;
  std::uint64_t max_runs_;
  std::deque<Path> waiting_;  ///< those with fewer departures first
  Outcome outcome_;
  RunStatistics statistics_;
};

}  // namespace

RunStatistics exhaust(const Scenario& scenario, std::uint32_t deviations, std::uint64_t max_runs) {
  return Exhaustion(scenario, deviations, max_runs).all();
}

void report(const std::string& protocol, const std::string& method,
            const RunStatistics& statistics) {
  const std::string path = base::env_text("PENSTOCK_SIM_LOG");
  if (path.empty()) return;
  std::ofstream(path, std::ios::app)
      << fmt::format(
             R"({{"protocol": "{}", "method": "{}", "runs": {}, "operations": {}, "failures": {}}})",
             protocol, method, statistics.runs, statistics.operations, statistics.failures)
      << '\n';
}

}  // namespace penstock::sim
