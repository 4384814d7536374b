// penstock bench tune: finds the fastest plan of each collective on this machine, and writes a
// table that jobs on the pool use.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <fstream>

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/file.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "bench/bench_pool.hpp"
#include "bench/supervisor.hpp"
#include "bench/tuning_choice.hpp"
#include "coll/tuning_store.hpp"
#include "command.hpp"
#include "json.hpp"
#include "table.hpp"

namespace penstock::tools {

namespace {

struct TuneArguments {
  std::string pool;
  std::vector<std::uint32_t> ranks, per_node = {1};
  bool quick = false, print = false, reset = false, dry_run = false, force = false, json = false;
  std::string export_to, import_from;
};

Result<View> attach(const std::string& spec) {
  PENSTOCK_TRY(check_use(spec));
  auto pool = PENSTOCK_TRY(pool::Pool::attach({.spec = spec}));
  auto arena = PENSTOCK_TRY(arena::Arena::open(*pool));
  return View{std::move(pool), std::move(arena)};
}

Result<void> write_table(base::OutputFile& file, const coll::Tuning& tuning) {
  return file.write(fmt::format("# {}\n{}", tuning.origin, coll::print(tuning)));
}

Result<std::string> spec_for(const TuneArguments& arguments, const char* option) {
  const std::string spec = named_or_set(arguments.pool);
  if (!spec.empty()) return spec;
  return fail(ErrorCode::invalid_argument,
              "{} needs a pool, and none is named: give --pool SPEC, or set PENSTOCK_POOL", option);
}

Result<void> keep(const std::string& spec, const coll::Tuning& tuning, bool quietly) {
  const auto view = PENSTOCK_TRY(attach(spec));
  PENSTOCK_TRY(coll::store_tuning(*view.arena, tuning));
  if (quietly) return {};
  fmt::print(
      "kept in pool {}: {}; communicators made from now on go by it\n", spec,
      tuning.entries.size() == 1 ? "1 entry" : fmt::format("{} entries", tuning.entries.size()));
  return {};
}

/// `kept_in`: "" if the table is not kept.
Json table_facts(const coll::Tuning& tuning, const std::string& kept_in) {
  Json entries = Json::array();
  for (const coll::TuningEntry& entry : tuning.entries) entries.push_back(coll::print(entry));
  return {{"origin", tuning.origin},
          {"kept_in", kept_in.empty() ? Json() : Json(kept_in)},
          {"entries", entries}};
}

// ---- tables without measuring -------------------------------------------------------------------

Result<void> print_table(const TuneArguments& arguments) {
  const std::string spec = named_or_set(arguments.pool);
  coll::Tuning tuning = coll::default_tuning();
  std::string kept_in;
  std::string where = spec.empty() ? "no pool is named" : fmt::format("pool {} has none", spec);
  if (!spec.empty()) {
    const auto view = PENSTOCK_TRY(look_at(spec));
    if (auto found = PENSTOCK_TRY(coll::load_tuning(*view.arena))) {
      tuning = *std::move(found);
      where = fmt::format("in pool {}", spec);
      kept_in = spec;
    }
  }
  if (arguments.json)
    print_json(table_facts(tuning, kept_in));
  else
    fmt::print("# {} ({})\n{}", tuning.origin, where, coll::print(tuning));
  if (base::env_is_set("PENSTOCK_COLL_TUNING"))
    fmt::print(stderr, "# PENSTOCK_COLL_TUNING is set here: jobs go by it instead\n");
  auto file = PENSTOCK_TRY(base::OutputFile::open(arguments.export_to));
  return write_table(file, tuning);
}

Result<void> import_table(const TuneArguments& arguments) {
  const std::string spec = PENSTOCK_TRY(spec_for(arguments, "--import"));
  const std::string text = base::read_file(arguments.import_from);
  if (text.empty())
    return fail(ErrorCode::not_found, "there is no file {}, or it is empty or cannot be read",
                arguments.import_from);
  auto tuning = coll::parse_tuning(text);
  if (!tuning)
    return fail(ErrorCode::wrong_format, "{}: {}", arguments.import_from, tuning.error().message);
  tuning->origin = "imported, " + wall_text(base::wall_ns());
  if (!arguments.dry_run) PENSTOCK_TRY(keep(spec, *tuning, arguments.json));
  if (arguments.json)
    print_json(table_facts(*tuning, arguments.dry_run ? "" : spec));
  else if (arguments.dry_run)
    fmt::print("{}", coll::print(*tuning));
  return {};
}

Result<void> reset_table(const TuneArguments& arguments) {
  const std::string spec = PENSTOCK_TRY(spec_for(arguments, "--reset"));
  const auto view = PENSTOCK_TRY(attach(spec));
  const bool was = PENSTOCK_TRY(coll::remove_tuning(*view.arena));
  if (arguments.json) {
    print_json({{"pool", spec}, {"removed", was}});
    return {};
  }
  fmt::print("pool {} {}; the built-in table counts\n", spec,
             was ? "has no tuning table any more" : "had no tuning table");
  return {};
}

// ---- measuring ----------------------------------------------------------------------------------

/// Those asked for, ascending; by default 2, 4 and 8, as far as there are CPUs.
Result<std::vector<std::uint32_t>> ranks_of(const TuneArguments& arguments) {
  const std::uint32_t cpus = base::usable_cpus();
  std::vector<std::uint32_t> ranks = arguments.ranks;
  if (ranks.empty())
    for (const std::uint32_t count : {2u, 4u, 8u})
      if (count <= cpus || (count == 2 && arguments.force)) ranks.push_back(count);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.empty() || (ranks.back() > cpus && !arguments.force))
    return fail(ErrorCode::unavailable,
                "{} ranks on {} take turns, so the scheduler would decide the times: name fewer by "
                "--ranks (at least 2), or measure all the same: --force",
                ranks.empty() ? 2 : ranks.back(), counted(cpus, "CPU"));
  return ranks;
}

Result<void> check_mode(const std::string& spec, bool force) {
  const auto info = PENSTOCK_TRY(pool::inspect(spec));
  if (info.mode != coherence::Mode::simulated || force) return {};
  return fail(ErrorCode::mismatch,
              "pool {} is in simulated mode, where times mean nothing: name another one, or "
              "measure all the same: --force",
              spec);
}

/// Rewrites one line on a terminal; elsewhere prints a line after each quarter.
class Progress {
 public:
  Progress(std::uint32_t ranks, std::uint32_t per_node)
      : what_(counted(ranks, "rank") +
              (per_node > 1 ? fmt::format(", {} on a node", per_node) : std::string())),
        terminal_(::isatty(STDERR_FILENO) == 1) {
    if (!terminal_) fmt::print(stderr, "penstock: measuring {}\n", what_);
  }
  ~Progress() {
    if (terminal_) fmt::print(stderr, "\r{:60}\r", "");
  }
  void operator()(std::uint32_t done, std::uint32_t most) {
    if (terminal_) {
      fmt::print(stderr, "\rmeasuring {}: round {} of at most {}", what_, done, most);
      std::fflush(stderr);
    } else if (done * 4 / most > quarters_) {
      quarters_ = done * 4 / most;
      fmt::print(stderr, "penstock: measuring {}: round {} of at most {}\n", what_, done, most);
    }
  }

 private:
  std::string what_;
  std::uint32_t quarters_ = 0;
  bool terminal_;
};

std::string how(const coll::TuningEntry& entry) {
  std::string text = entry.eager ? "eager" : name_of(entry.algorithm);
  if (entry.variant != coll::Variant::all) text += fmt::format(" {}", name_of(entry.variant));
  if (entry.turns) text += " turns";
  if (entry.chunk_bytes != 0) text += fmt::format(" chunk={}K", entry.chunk_bytes >> 10);
  return text;
}

std::string span_text(double first_ns, double last_ns, bool one) {
  return one ? about_ns(first_ns) : fmt::format("{} - {}", about_ns(first_ns), about_ns(last_ns));
}

/// "4 KiB" if that is exact, else "4144".
std::string size_text(std::uint64_t bytes) {
  return bytes >= 1024 && std::has_single_bit(bytes) ? about(bytes) : std::to_string(bytes);
}

void print_choices(const std::vector<bench::TuningChoice>& choices) {
  Table table({{"COLLECTIVE"},
               {"RANKS", Align::right},
               {"PER NODE", Align::right},
               {"BYTES", Align::right},
               {"CHOICE"},
               {"TIME", Align::right},
               {"BUILT-IN'S", Align::right}});
  for (const auto& c : choices) {
    const bool one = c.first_bytes == c.last_bytes;
    table.add({name_of(*c.entry.collective), std::to_string(c.entry.min_ranks),
               std::to_string(c.entry.min_per_node),
               one ? size_text(c.first_bytes)
                   : fmt::format("{} - {}", size_text(c.first_bytes), size_text(c.last_bytes)),
               how(c.entry) + (c.by_default ? " (built-in)" : ""),
               span_text(c.first_ns, c.last_ns, one),
               span_text(c.first_default_ns, c.last_default_ns, one)});
  }
  fmt::print("{}", table.text());
}

Json choice_facts(const std::vector<bench::TuningChoice>& choices) {
  Json facts = Json::array();
  for (const auto& c : choices) {
    facts.push_back({{"collective", name_of(*c.entry.collective)},
                     {"ranks", c.entry.min_ranks},
                     {"ranks_per_node", c.entry.min_per_node},
                     {"first_bytes", c.first_bytes},
                     {"last_bytes", c.last_bytes},
                     {"choice", how(c.entry)},
                     {"built_in", c.by_default},
                     {"first_ns", c.first_ns},
                     {"last_ns", c.last_ns},
                     {"first_built_in_ns", c.first_default_ns},
                     {"last_built_in_ns", c.last_default_ns}});
  }
  return facts;
}

std::string origin_text(const std::vector<std::uint32_t>& ranks, const std::string& mode) {
  char host[40] = "?";
  (void)::gethostname(host, sizeof host - 1);
  std::string counts;
  for (const std::uint32_t count : ranks)
    counts += (counts.empty() ? "" : ",") + std::to_string(count);
  std::string text = fmt::format("measured {} on {}, {} mode, ranks {}", wall_text(base::wall_ns()),
                                 host, mode, counts);
  text.resize(std::min(text.size(), coll::Tuning::max_origin_bytes));
  return text;
}

/// The k-th of the given numbers, which ascend; 0 if there are fewer.
std::uint32_t at_or_zero(const std::vector<std::uint32_t>& numbers, std::size_t k) {
  return k < numbers.size() ? numbers[k] : 0;
}

/// The given numbers of ranks per node that leave several nodes or are 1.
Result<std::vector<std::uint32_t>> per_node_of(const TuneArguments& arguments,
                                               const std::vector<std::uint32_t>& ranks) {
  std::vector<std::uint32_t> per_node = arguments.per_node;
  std::sort(per_node.begin(), per_node.end());
  per_node.erase(std::unique(per_node.begin(), per_node.end()), per_node.end());
  if (per_node.back() == 1 || per_node.back() < ranks.back()) return per_node;
  return fail(ErrorCode::invalid_argument,
              "{} ranks on a node of {} leave no second node: name more by --ranks, or fewer by "
              "--ranks-per-node",
              ranks.back(), per_node.back());
}

/// More ranks on a node first: the first matching entry of a table is used.
Result<std::vector<bench::TuningChoice>> measure_all(const TuneArguments& arguments,
                                                     const std::vector<std::uint32_t>& ranks,
                                                     const std::string& spec) {
  const auto per_node = PENSTOCK_TRY(per_node_of(arguments, ranks));
  const std::uint64_t budget_ns = arguments.quick ? 4'000'000'000 : 40'000'000'000;
  std::vector<bench::TuningChoice> choices;
  for (std::size_t k = per_node.size(); k-- > 0;) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (per_node[k] > 1 && per_node[k] >= ranks[i]) continue;
      Progress progress(ranks[i], per_node[k]);
      const auto measured = PENSTOCK_TRY(bench::measure_plans(
          {.spec = spec,
           .ranks = ranks[i],
           .per_node = per_node[k],
           .grid = {arguments.quick},
           .budget_ns = budget_ns / ranks.size() / per_node.size(),
           .progress = [&](std::uint32_t done, std::uint32_t most) { progress(done, most); }}));
      const auto chosen =
          bench::choose(measured, {bench::last_ranks(ranks[i], at_or_zero(ranks, i + 1)),
                                   bench::last_per_node(at_or_zero(per_node, k + 1))});
      choices.insert(choices.end(), chosen.begin(), chosen.end());
    }
  }
  return choices;
}

Result<void> measure(const TuneArguments& arguments) {
  const auto ranks = PENSTOCK_TRY(ranks_of(arguments));
  auto export_to = PENSTOCK_TRY(base::OutputFile::open(arguments.export_to));
  const std::string named = named_or_set(arguments.pool);
  // An interruption passes through the supervisor's result, so that a temporary pool is removed.
  const bench::HeldSignals held;
  if (!named.empty()) PENSTOCK_TRY(check_use(named));
  const auto mode =
      named.empty() ? coherence::Mode::software : PENSTOCK_TRY(pool::inspect(named)).mode;
  const std::uint64_t bytes = std::max<std::uint64_t>(256, 64 * ranks.back()) << 20;
  const auto pool = PENSTOCK_TRY(bench::BenchPool::prepare(named, bytes, mode));
  PENSTOCK_TRY(check_mode(pool.spec(), arguments.force));
  const auto choices = measure_all(arguments, ranks, pool.spec());
  // Frees what ended ranks left.
  if (!choices && !named.empty()) (void)attach(named);
  if (!choices) return unexpected(choices.error());
  if (!arguments.json) print_choices(*choices);
  coll::Tuning tuning = bench::tuning_of(*choices);
  tuning.origin = origin_text(ranks, coherence::mode_name(mode));
  PENSTOCK_TRY(write_table(export_to, tuning));
  const bool kept = !arguments.dry_run && !named.empty();
  if (arguments.json) {
    if (kept) PENSTOCK_TRY(keep(named, tuning, true));
    Json facts = table_facts(tuning, kept ? named : "");
    facts["choices"] = choice_facts(*choices);
    print_json(facts);
  } else if (arguments.dry_run) {
    fmt::print("nothing is kept (--dry-run)\n");
  } else if (named.empty()) {
    fmt::print("nothing is kept: this was a temporary pool; to keep the table: --pool SPEC\n");
  } else {
    return keep(named, tuning, false);
  }
  return {};
}

int run_tune(const TuneArguments& arguments) {
  const auto done = arguments.print                  ? print_table(arguments)
                    : arguments.reset                ? reset_table(arguments)
                    : !arguments.import_from.empty() ? import_table(arguments)
                                                     : measure(arguments);
  return done ? exit_ok : report(done.error());
}

}  // namespace

void add_tune_command(CLI::App& bench, Action& chosen) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App* tune = bench.add_subcommand(
      "tune", "measure which plan of each collective is the fastest, for jobs on the pool");
  tune->add_option("--pool", arguments->pool,
                   "measure in this pool and keep the table there (default: PENSTOCK_POOL, else a "
                   "temporary one, and nothing is kept)");
  tune->add_option("--ranks", arguments->ranks,
                   "numbers of ranks, separated by commas (default: 2, 4 and 8, as CPUs allow)")
      ->delimiter(',')
      ->check(CLI::Range(2, 64));
  tune->add_option("--ranks-per-node", arguments->per_node,
                   "ranks that share a node, numbers separated by commas (default: 1); an entry "
                   "counts up to the next number that was measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  add_json_option(*tune, arguments->json);
  tune->add_flag("--quick", arguments->quick, "some 5 seconds in place of 40");
  tune->add_flag("--force", arguments->force, "also where times mean little");
  tune->add_flag("--dry-run", arguments->dry_run, "keep nothing");
  tune->add_option("--export", arguments->export_to, "write the table to this file too");
  auto* print = tune->add_flag("--print", arguments->print, "print the pool's table as text");
  auto* reset = tune->add_flag("--reset", arguments->reset, "remove the pool's table");
  auto* import = tune->add_option("--import", arguments->import_from,
                                  "keep the table of this file, in the form that --print has");
  print->excludes(reset)->excludes(import);
  reset->excludes(import);
  tune->callback([&chosen, arguments] { chosen = [arguments] { return run_tune(*arguments); }; });
}

}  // namespace penstock::tools
