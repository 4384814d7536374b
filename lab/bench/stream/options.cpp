#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>

#include "base/cpus.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "bench/stream/stream.hpp"
#include "bench/stream/team.hpp"
#include "bench/supervisor.hpp"

namespace penstock::bench::stream {

namespace {

/// Parses each text by `parse`; returns `all` if there are none.
template <class Value, class Parse>
Result<std::vector<Value>> parsed(const std::vector<std::string>& texts, const Parse& parse,
                                  std::vector<Value> all) {
  if (texts.empty()) return all;
  std::vector<Value> values;
  for (const std::string& text : texts) values.push_back(PENSTOCK_TRY(parse(text)));
  return values;
}

std::optional<unsigned> positive(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value > 0 && value <= 1 << 16 ? std::optional(value) : std::nullopt;
}

Result<std::vector<int>> cpus_of(const std::string& cores) {
  const std::vector<int> allowed = allowed_cpus();
  if (cores.empty()) return allowed;
  const auto asked = base::parse_cpu_list(cores);
  if (!asked)
    return fail(ErrorCode::invalid_argument,
                "--cores '{}' is no list of CPUs: --cores 0-3,8 names five", cores);
  for (const int cpu : *asked)
    if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end())
      return fail(ErrorCode::invalid_argument,
                  "--cores names CPU {}, which this process may not use: taskset -cp $$ shows "
                  "which it may",
                  cpu);
  return *asked;
}

}  // namespace

void StreamOptions::add_to(CLI::App& app) {
  app.add_option("--target", targets,
                 "where the arrays lie: memory, numa:NODE, pmem:FOLDER, pmem+persist:FOLDER, "
                 "pmem+tx:FOLDER, pmem+tx-nosnap:FOLDER, pool[:SPEC], pool+observe[:SPEC], "
                 "pool+tx[:SPEC]; several, or again (default: every class of the paper that this "
                 "machine has memory for, and a temporary pool)");
  app.add_option("--class", classes,
                 "only these: 1a, 1b, 1c, 2a, 2b, local, pool, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(class_names.begin(), class_names.end())));
  app.add_flag("--list", list, "print what would be measured, and what is absent and why");
  app.add_option("--kernels", kernels, "copy, scale, add, triad, separated by commas")
      ->delimiter(',');
  app.add_option(
         "--elements", elements,
         "of each of three arrays of doubles (default: 100 million, or what fits); at least "
         "4 times the last-level caches")
      ->check(CLI::Range(std::int64_t{8}, std::int64_t{1} << 50));
  app.add_flag("--smallest", smallest,
               "as few elements as the caches allow, in place of 100 million");
  app.add_flag("--any-size", any_size, "also arrays that the caches hold: for trying out");
  app.add_option("--ntimes", ntimes, "runs of each kernel, of which the first does not count")
      ->check(CLI::Range(2u, max_runs))
      ->capture_default_str();
  app.add_option("--threads", threads,
                 "1,2,8 or 1-10 (default: powers of two, and all CPUs of a series)");
  app.add_option("--affinity", affinities,
                 "close fills one NUMA node's CPUs, then the next; spread takes one of each in "
                 "turn; for --target")
      ->delimiter(',');
  app.add_flag("--first-touch", first_touch,
               "each thread fills its part of the arrays first; else one fills all");
  app.add_option("--cores", cores, "CPUs to use: 0-3,8 (default: all that this process may)");
  app.add_option("--store", stores,
                 "plain, nt (non-temporal) or both (default: plain; both in a pool in software "
                 "mode)")
      ->delimiter(',');
  app.add_option("--mode", modes,
                 "of pools that are made: hardware, software, uncached, simulated (default: "
                 "hardware,software)")
      ->delimiter(',');
  app.add_option("--repeat", repeat, "measure everything so often, in turn; tables have medians")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--json", json, "write every figure to this file too");
  app.add_option("--csv", csv, "the same as threads, Copy, Scale, Add, Triad in MB/s, series");
}

Result<std::vector<unsigned>> parse_threads(const std::string& text) {
  std::vector<unsigned> threads;
  std::string_view left = text;
  while (!left.empty()) {
    const std::string_view item = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), item.size() + 1));
    const auto dots = item.find("..");
    const auto cut = dots == item.npos ? item.find('-') : dots;
    const auto first = positive(item.substr(0, cut));
    const auto last =
        cut == item.npos ? first : positive(item.substr(cut + (dots == item.npos ? 1 : 2)));
    if (!first || !last || *last < *first)
      return fail(ErrorCode::invalid_argument,
                  "--threads '{}' names no numbers of threads: --threads 1,2,8 or --threads 1-10",
                  text);
    for (unsigned count = *first; count <= *last; ++count) threads.push_back(count);
  }
  std::sort(threads.begin(), threads.end());
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  if (!has_openmp() && !threads.empty() && threads.back() > 1)
    return fail(ErrorCode::unavailable,
                "this build has no OpenMP, so STREAM has one thread: --threads 1, or build with a "
                "compiler that has it (apt-get install g++)");
  return threads;
}

Result<Settings> check(const StreamOptions& options) {
  Settings settings;
  settings.run.kernels = PENSTOCK_TRY(
      parsed<Kernel>(options.kernels, parse_kernel, {all_kernels.begin(), all_kernels.end()}));
  settings.run.ntimes = options.ntimes;
  settings.run.first_touch = options.first_touch;
  settings.threads = PENSTOCK_TRY(parse_threads(options.threads));
  settings.cpus = PENSTOCK_TRY(cpus_of(options.cores));
  settings.affinities =
      PENSTOCK_TRY(parsed<Affinity>(options.affinities, parse_affinity, {Affinity::close}));
  settings.targets.stores = PENSTOCK_TRY(parsed<Store>(options.stores, parse_store, {}));
  settings.targets.modes = PENSTOCK_TRY(parsed<coherence::Mode>(
      options.modes, [](const std::string& text) { return coherence::parse_mode(text); }, {}));
  return settings;
}

Result<Sized> choose_elements(const StreamOptions& options, const Topology& topology,
                              std::vector<Series> series, std::vector<Absent>& absent,
                              Result<std::uint64_t> (*room)(const TargetSpec&)) {
  Sized sized{.series = {}, .elements = options.elements};
  if (options.elements % line_elements != 0)
    return fail(ErrorCode::invalid_argument,
                "--elements {} is no multiple of {}, the elements of a cache line: --elements {}",
                options.elements, line_elements,
                (options.elements / line_elements + 1) * line_elements);
  std::uint64_t largest_least = line_elements, smallest_most = published_elements;
  for (Series& each : series) {
    const std::uint64_t caches = topology.last_level_bytes(each.cpus).value_or(0);
    const std::uint64_t least =
        options.any_size ? line_elements : caches * caches_an_array / sizeof(double);
    if (options.elements != 0 && options.elements < least)
      return fail(ErrorCode::invalid_argument,
                  "--elements {} are too few: an array must have {} times the last-level caches "
                  "({}), so at least {} elements; --any-size allows smaller arrays",
                  options.elements, caches_an_array, base::format_bytes(caches), least);
    const auto most = room(each.target);
    const std::uint64_t needed = options.elements != 0 ? options.elements : least;
    if (!most || *most < needed) {
      absent.push_back({each.name, !most ? most.error().message
                                         : fmt::format("there is room for {} elements an array, "
                                                       "and {} are needed",
                                                       *most, needed)});
      continue;
    }
    largest_least = std::max(largest_least, least);
    smallest_most = std::min(smallest_most, *most);
    sized.series.push_back(std::move(each));
  }
  if (options.elements == 0)
    sized.elements = options.smallest ? largest_least : std::max(largest_least, smallest_most);
  return sized;
}

}  // namespace penstock::bench::stream
