// penstock ps [SPEC]: the attached processes, and what each of them waits for.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "command.hpp"
#include "facts.hpp"
#include "host_pools.hpp"
#include "pool/members.hpp"
#include "processes.hpp"
#include "ps_view.hpp"
#include "traffic_view.hpp"
#include "watch.hpp"

namespace penstock::tools {
namespace {

struct PsArguments {
  std::string spec;
  bool json = false, all = false, peers = false;
  double watch_seconds = 0;    ///< 0: show once
  double traffic_seconds = 0;  ///< 0: do not show traffic
};

/// Keeps pools mapped between looks: only several looks at the leases show whether processes of
/// other hosts live.
class Observers {
 public:
  Result<pool::Pool*> at(const std::string& spec) {
    auto info = pool::inspect(spec);
    if (!info) {
      pools_.erase(spec);
      return unexpected(info.error());
    }
    auto& pool = pools_[spec];
    if (pool && pool->info().id != info->id) pool.reset();  // another pool took its place
    if (!pool) {
      pool = PENSTOCK_TRY(observe(spec));
    }
    return pool.get();
  }

 private:
  std::map<std::string, std::unique_ptr<pool::Pool>> pools_;
};

Result<std::vector<pool::ProcessRecord>> processes_of(const PsArguments& arguments,
                                                      Observers& observers,
                                                      const std::string& spec) {
  auto* const pool = PENSTOCK_TRY(observers.at(spec));
  auto records = by_process(pool->members().processes());
  if (!arguments.all) {
    std::erase_if(records, [](const pool::ProcessRecord& record) { return !record.attached; });
  }
  return records;
}

/// One look, as a table and as facts.
struct Look {
  std::string text;
  Json facts = Json::array();
};

void add(Look& look, const PsArguments& arguments, const std::string& spec,
         const std::vector<pool::ProcessRecord>& records, RateMeter* meter) {
  if (arguments.json) {
    add_processes(look.facts, spec, records, meter);
  } else {
    look.text += process_table(spec, records, meter);
  }
}

Result<Look> look_at_pool(const PsArguments& arguments, Observers& observers, RateMeter* meter) {
  const auto records = PENSTOCK_TRY(processes_of(arguments, observers, arguments.spec));
  Look look;
  add(look, arguments, arguments.spec, records, meter);
  return look;
}

/// Looks at every pool of this host that has attached processes.
Look look_at_host(const PsArguments& arguments, Observers& observers, RateMeter* meter) {
  Look look;
  std::size_t pools = 0, used = 0;
  Refusals refusals;
  for (const HostPool& each : host_pools()) {
    ++pools;
    const auto records = processes_of(arguments, observers, each.spec);
    if (!records) {
      // While pools are watched, their appearing and disappearing is normal.
      if (meter == nullptr) refusals.add(each.spec, records.error());
      continue;
    }
    if (records->empty()) continue;
    look.text += fmt::format("{}pool {}\n", used++ == 0 ? "" : "\n", each.spec);
    add(look, arguments, each.spec, *records, meter);
  }
  if (used == 0) {
    look.text = fmt::format(
        "nobody is attached to a pool of this host ({}); pools in files: penstock ps "
        "FILE\n",
        counted(pools, "pool"));
  }
  return look;
}

Result<Look> look_at_peers(const PsArguments& arguments) {
  auto view = PENSTOCK_TRY(look_at(arguments.spec));
  const auto records = view.pool->members().processes();
  auto rows = transport::peer_counts(*view.arena);
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(a.endpoint, a.peer) < std::pair(b.endpoint, b.peer);
  });
  if (arguments.json) return Look{"", peer_facts(rows, records)};
  return Look{peer_table(rows, records), {}};
}

/// Two looks, some time apart.
Result<Look> look_at_traffic(const PsArguments& arguments, const Rest& rest) {
  const auto view = PENSTOCK_TRY(observe(arguments.spec));
  const auto before = view->members().processes();
  rest(arguments.traffic_seconds);
  const auto rows = traffic_of(before, view->members().processes());
  if (arguments.json) return Look{"", traffic_facts(rows)};
  return Look{traffic_table(rows), {}};
}

Result<Look> take_look(const PsArguments& arguments, Observers& observers, RateMeter* meter,
                       const Rest& rest) {
  if (arguments.peers) return look_at_peers(arguments);
  if (arguments.traffic_seconds != 0) return look_at_traffic(arguments, rest);
  if (arguments.spec.empty()) return look_at_host(arguments, observers, meter);
  return look_at_pool(arguments, observers, meter);
}

std::string title(const PsArguments& arguments) {
  return fmt::format("{}{} every {:g} s: {}; Ctrl-C ends\n",
                     arguments.spec.empty() ? "pools of this host" : "pool ", arguments.spec,
                     arguments.watch_seconds, wall_text(base::wall_ns()));
}

/// Reports a pool that disappears, and shows it again if it is made again.
int show_again_and_again(const PsArguments& arguments) {
  Observers observers;
  RateMeter meter;
  return watch({arguments.watch_seconds, arguments.json}, [&](const Rest& rest) -> std::string {
    meter.begin(base::now_ns());
    const auto look = take_look(arguments, observers, &meter, rest);
    if (arguments.json) {
      return json_line(
          {{"time", wall_text(base::wall_ns())},
           {"error", look ? Json() : Json(look.error().message)},
           {arguments.peers ? "peers" : "processes", look ? look->facts : Json::array()}});
    }
    return title(arguments) + (look ? look->text : look.error().message + "\n");
  });
}

int print(const Look& look, bool json) {
  if (json) return print_json(look.facts);
  fmt::print("{}", look.text);
  return exit_ok;
}

int show(PsArguments arguments) {
  arguments.spec = named_or_set(arguments.spec);
  if (arguments.peers || arguments.traffic_seconds != 0) {
    const char* option = arguments.peers ? "--peers" : "--traffic";
    auto spec = named_or_only(arguments.spec, fmt::format("penstock ps {}", option));
    if (!spec) return report(spec.error());
    arguments.spec = *spec;
  }
  {
    // The first look decides whether there is anything to show at all.
    Observers observers;
    const auto look = take_look(arguments, observers, nullptr, [](double seconds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    });
    if (!look) return report(look.error());
    if (!arguments.spec.empty()) warn_of_owner(arguments.spec);
    if (arguments.watch_seconds == 0) return print(*look, arguments.json);
  }
  return show_again_and_again(arguments);
}

}  // namespace

void add_ps_command(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<PsArguments>();
  CLI::App* command =
      app.add_subcommand("ps", "show the processes attached to a pool, and what each waits for");
  command->add_option("SPEC", arguments->spec,
                      "the pool (default: PENSTOCK_POOL, else all pools of this host)");
  add_trust_option(*command);
  add_json_option(*command, arguments->json);
  command->add_flag("--all", arguments->all, "also those that have left, with their last counts");
  command->add_flag("--peers", arguments->peers,
                    "for each pair of processes: messages, bytes, stalls for want of credit, polls "
                    "in vain");
  command
      ->add_option("--traffic", arguments->traffic_seconds,
                   "the lines that each process reads from the device in a second, from two looks "
                   "3 seconds or so many apart")
      ->check(CLI::Range(0.1, 86400.0))
      ->excludes(command->get_option("--peers"));
  command
      ->add_option("--watch", arguments->watch_seconds,
                   "show it again and again, with rates, every 2 seconds or so many, until Ctrl-C; "
                   "with --json a line each time")
      ->check(CLI::Range(0.1, 86400.0));
  command->callback([&chosen, arguments] { chosen = [arguments] { return show(*arguments); }; });
}

}  // namespace penstock::tools
