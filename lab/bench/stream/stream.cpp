#include "bench/stream/stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>

#include "base/exit_status.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/output_file.hpp"
#include "bench/stream/results.hpp"

namespace penstock::bench::stream {

namespace {

int failed(const Error& error) {
  base::log(base::Level::error, "{}", error.message);
  return base::exit_status_of(error.code);
}

/// Powers of two, and all CPUs.
std::vector<unsigned> usual_threads(std::size_t cpus) {
  std::vector<unsigned> threads;
  for (unsigned count = 1; count < cpus; count *= 2) threads.push_back(count);
  threads.push_back(static_cast<unsigned>(cpus));
  return threads;
}

std::string figure_name(const Series& series, unsigned threads) {
  return fmt::format("{}, {} thread{}", series.name, threads, threads == 1 ? "" : "s");
}

/// Groups what is absent for the same reason.
void print_absent(const std::vector<Absent>& absent) {
  if (absent.empty()) return;
  fmt::print("\nnot on this machine\n");
  for (std::size_t i = 0; i < absent.size(); ++i) {
    fmt::print("  {}\n", absent[i].what);
    if (i + 1 == absent.size() || absent[i + 1].why != absent[i].why)
      fmt::print("    {}\n", absent[i].why);
  }
}

void print_list(const Topology& topology, const Plan& plan) {
  for (const Node& node : topology.nodes) {
    std::string distances;
    for (const int distance : node.distances) distances += fmt::format(" {}", distance);
    fmt::print("node {}: {} CPUs, {} MiB, {}, distances{}\n", node.number, node.cpus.size(),
               node.bytes >> 20, node.memory, distances);
  }
  for (const DaxDevice& device : topology.devices)
    fmt::print("{}: {}, node {}{}\n", device.name, device.driver, device.node,
               device.cxl ? ", CXL" : "");
  for (const DaxMount& mount : topology.mounts)
    fmt::print("{} on {} with dax, node {}{}\n", mount.device, mount.folder, mount.node,
               mount.cxl ? ", CXL" : "");
  fmt::print("\nclass   CPUs  series\n");
  for (const Series& series : plan.series)
    fmt::print("{:<7} {:>4}  {}\n", series.group, series.cpus.size(), series.name);
  print_absent(plan.absent);
}

void print_memory(const std::vector<Figure>& figures) {
  fmt::print("\nmemory\n");
  for (const auto& [series, facts] : memory_of(figures))
    if (!facts.empty()) fmt::print("  {}: {}\n", series->name, facts);
}

/// The series of a run and their results. A figure that failed is not tried again.
class Runner {
 public:
  Runner(const Settings& settings, Sized sized, std::vector<Absent>& absent)
      : settings_(settings), sized_(std::move(sized)), absent_(absent) {
    for (const Series& series : sized_.series) {
      const auto wanted =
          settings.threads.empty() ? usual_threads(series.cpus.size()) : settings.threads;
      for (const unsigned threads : wanted) {
        if (threads <= series.cpus.size())
          figures_.push_back({&series, threads, {}});
        else
          absent_.push_back({figure_name(series, threads),
                             fmt::format("there are {} CPUs for it", series.cpus.size())});
      }
    }
    broken_.resize(figures_.size());
  }

  /// Measures all figures once. Returns true unless a result was wrong.
  bool round() {
    bool right = true;
    for (std::size_t i = 0; i < figures_.size() && Interruptible::asked() == 0; ++i) {
      if (broken_[i]) continue;
      progress(i);
      auto measured = one(figures_[i]);
      if (measured) {
        figures_[i].measured.push_back(std::move(*measured));
        continue;
      }
      if (Interruptible::asked() != 0) break;
      broken_[i] = true;
      right = right && measured.error().code != ErrorCode::mismatch;
      absent_.push_back(
          {figure_name(*figures_[i].series, figures_[i].threads), measured.error().message});
    }
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
    return right;
  }

  std::vector<Figure> figures() const {
    std::vector<Figure> measured;
    for (const Figure& figure : figures_)
      if (!figure.measured.empty()) measured.push_back(figure);
    return measured;
  }
  std::uint64_t elements() const { return sized_.elements; }

 private:
  Result<Measured> one(const Figure& figure) const {
    Run run = settings_.run;
    run.cpus.assign(figure.series->cpus.begin(), figure.series->cpus.begin() + figure.threads);
    const auto target =
        PENSTOCK_TRY(open_target(figure.series->target, sized_.elements, figure.threads));
    return measure(*target, run);
  }
  void progress(std::size_t i) const {
    if (isatty(STDERR_FILENO) == 0) return;
    fmt::print(stderr, "\r\033[K{}/{}: {}", i + 1, figures_.size(),
               figure_name(*figures_[i].series, figures_[i].threads));
    std::fflush(stderr);
  }

  const Settings& settings_;
  const Sized sized_;
  std::vector<Absent>& absent_;
  std::vector<Figure> figures_;
  std::vector<bool> broken_;
};

struct Files {
  base::OutputFile csv, json;
};

Result<void> report(Files& files, const std::vector<Figure>& figures,
                    const std::vector<Absent>& absent, const Facts& facts) {
  if (!figures.empty()) {
    tables_of(figures, facts).print();
    print_memory(figures);
  }
  print_absent(absent);
  std::fflush(stdout);
  PENSTOCK_TRY(files.csv.write(csv_of(figures, facts)));
  return files.json.write(json_of({all_of(figures, absent, facts)}));
}

Result<int> run_checked(const StreamOptions& options) {
  const Settings settings = PENSTOCK_TRY(check(options));
  Files files{PENSTOCK_TRY(base::OutputFile::open(options.csv)),
              PENSTOCK_TRY(base::OutputFile::open(options.json))};
  const Topology topology = PENSTOCK_TRY(read_topology());
  Plan plan = options.targets.empty()
                  ? classes_of(topology, settings.cpus, settings.targets)
                  : PENSTOCK_TRY(chosen_series(options.targets, settings.cpus, settings.affinities,
                                               settings.targets));
  keep_classes(plan, options.targets.empty() ? options.classes : std::vector<std::string>{});
  if (options.list) {
    print_list(topology, plan);
    return 0;
  }
  Sized sized =
      PENSTOCK_TRY(choose_elements(options, topology, std::move(plan.series), plan.absent));
  const Interruptible interruptible;
  Runner runner(settings, std::move(sized), plan.absent);
  bool right = true;
  for (unsigned i = 0; i < options.repeat && Interruptible::asked() == 0; ++i)
    right = runner.round() && right;
  const auto figures = runner.figures();
  PENSTOCK_TRY(report(files, figures, plan.absent,
                      {.elements = runner.elements(),
                       .ntimes = options.ntimes,
                       .cache_bytes = topology.last_level_bytes(settings.cpus),
                       .first_touch = options.first_touch}));
  if (Interruptible::asked() != 0) return 128 + Interruptible::asked();
  return right && !figures.empty() ? 0 : 1;
}

}  // namespace

int run_stream(const StreamOptions& options) {
  const auto status = run_checked(options);
  return status ? *status : failed(status.error());
}

}  // namespace penstock::bench::stream
