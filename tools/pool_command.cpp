// penstock pool create | info | ls | rm; gc: pool_gc.cpp
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "command.hpp"
#include "facts.hpp"
#include "host_pools.hpp"
#include "pool/members.hpp"
#include "pool_arguments.hpp"
#include "processes.hpp"
#include "table.hpp"

namespace penstock::tools {
namespace {

constexpr const char* lifetime_name(arena::Lifetime lifetime) {
  if (lifetime == arena::Lifetime::persistent) return "persistent";
  return lifetime == arena::Lifetime::process ? "process" : "pool";
}

/// "gone" for an object that was destroyed meanwhile.
const char* lifetime_text(const arena::Arena& arena, const arena::Object& object) {
  const auto lifetime = arena.lifetime(object);
  return lifetime ? lifetime_name(*lifetime) : "gone";
}

struct Persistent {
  std::uint64_t objects = 0, bytes = 0;
};

/// Counts only users' objects: undo logs of dead processes must not keep a pool from being removed.
Persistent count_persistent(const arena::Arena& arena) {
  Persistent count;
  for (const arena::Object& object : arena.list()) {
    const auto lifetime = arena.lifetime(object);
    if (!lifetime || *lifetime != arena::Lifetime::persistent) continue;
    if (arena::is_reserved(object.name)) continue;
    ++count.objects;
    count.bytes += object.bytes;
  }
  return count;
}

/// `words`: has places for the path that a link in the SPEC leads to, and for the link.
void print_links(const std::vector<device::Part>& parts,
                 fmt::format_string<const std::string&, const std::string&> words) {
  for (const device::Part& part : parts)
    if (part.is_link()) fmt::print(words, part.path, part.named);
}

/// A pool that cannot be read may be removed: nothing is known of its contents.
Result<void> check_nothing_kept(const std::string& spec) {
  const auto view = look_at(spec);
  if (!view) return {};
  const Persistent kept = count_persistent(*view->arena);
  if (kept.objects == 0) return {};
  return fail(ErrorCode::unavailable,
              "pool {} keeps {} ({}); to list them: penstock pool ls {}; to lose them: penstock "
              "pool rm {} --force",
              spec, counted(kept.objects, "persistent object"), about(kept.bytes),
              shell_quote(spec), shell_quote(spec));
}

int create(const PoolArguments& arguments) {
  pool::CreateOptions options;
  options.spec = arguments.spec;
  if (arguments.overwrite) {
    const auto nothing_kept = check_nothing_kept(arguments.spec);
    if (!nothing_kept) return report(nothing_kept.error());
  }
  if (!arguments.size.empty()) {
    auto bytes = base::parse_bytes(arguments.size);
    if (!bytes) return report(bytes.error());
    options.bytes = *bytes;
  }
  auto choice = choose_mode(arguments.mode, arguments.spec);
  if (!choice) return report(choice.error());
  if (auto replaced = pool::inspect(arguments.spec);
      replaced && arguments.overwrite && arguments.mode == "auto")
    choice = ModeChoice{replaced->mode, "the pool that was replaced had it"};
  options.mode = choice->mode;
  options.max_processes =
      arguments.slots != 0 ? arguments.slots : pool::slots_per_rank * arguments.ranks;
  options.max_nodes = arguments.nodes;
  options.overwrite = arguments.overwrite;
  options.sparse = arguments.sparse;
  if (!arguments.group.empty()) {
    options.group = arguments.group;
    options.permissions = 0660;
  }
  auto info = pool::create(options);
  if (!info) return report(info.error());
  // Opened once, so that the arena is formatted and later looks take no process slot.
  const auto view = look_at(arguments.spec);
  if (!view) {
    (void)pool::remove(arguments.spec, true);
    return report(view.error());
  }
  if (!arguments.json) {
    fmt::print("created {}: {}, {} coherence, at most {} ranks on {}, id {:016x}\n", arguments.spec,
               about(info->bytes), coherence::mode_name(info->mode), info->max_ranks(),
               counted(info->max_nodes, "node"), info->id);
    print_links(*device::parse_spec(arguments.spec), "its file is {}: {} is a link\n");
  }
  if (arguments.json) {
    Json facts = pool_facts(view->pool->info());
    facts["reason"] = choice->reason;
    return print_json(facts);
  }
  if (arguments.mode == "auto") {
    fmt::print("{} coherence because {}\n", coherence::mode_name(info->mode), choice->reason);
  }
  return exit_ok;
}

struct Attached {
  std::uint32_t alive = 0, dead = 0;
};

Attached count_attached(const pool::Pool& pool) {
  Attached count;
  for (const pool::ProcessRecord& record : by_process(pool.members().processes())) {
    if (!record.attached) continue;
    ++(record.alive ? count.alive : count.dead);
  }
  return count;
}

const char* durability_text(device::Durability durability) {
  switch (durability) {
    case device::Durability::none:
      return "nothing is kept when this host is switched off";
    case device::Durability::file:
      return "what was committed is kept, in the file";
    case device::Durability::device:
      return "what has reached the device is kept, as long as the device keeps it";
  }
  return "";
}

/// Prints nothing for a pool of one part.
void print_parts(const arena::Arena& arena) {
  const device::Striping& striping = arena.pool().info().striping;
  if (striping.parts < 2) return;
  std::string used;
  for (const std::uint64_t bytes : bytes_by_part(arena))
    used += (used.empty() ? "" : ", ") + about(bytes);
  fmt::print("parts      {} in stripes of {}; objects take {}\n", striping.parts,
             about(striping.stripe_bytes), used);
}

Json info_facts(const pool::Info& info, const Attached& attached, const arena::Stats& stats,
                const arena::Quarantine& quarantine, const Persistent& persistent,
                device::Durability durability) {
  Json facts = pool_facts(info);
  facts.update({{"alive", attached.alive},
                {"dead", attached.dead},
                {"durability", device::durability_name(durability)},
                {"objects_persistent", persistent.objects},
                {"bytes_persistent", persistent.bytes},
                {"objects", stats.objects},
                {"max_objects", stats.slots},
                {"bytes_used", stats.bytes_used},
                {"bytes_total", stats.bytes_total},
                {"bytes_largest_free", stats.bytes_largest_free},
                {"bytes_quarantined", stats.bytes_quarantined},
                {"quarantine", quarantine_facts(quarantine)}});
  return facts;
}

int info(PoolArguments arguments) {
  auto spec = named_or_only(arguments.spec, "penstock pool info");
  if (!spec) return report(spec.error());
  arguments.spec = *spec;
  auto view = look_at(arguments.spec);
  if (!view) return report(view.error());
  const pool::Info& info = view->pool->info();
  const Attached attached = count_attached(*view->pool);
  const arena::Stats stats = view->arena->stats();
  const arena::Quarantine quarantine = view->arena->quarantine();
  const Persistent persistent = count_persistent(*view->arena);
  const device::Durability durability = view->pool->device().durability();
  if (arguments.json) {
    Json facts = info_facts(info, attached, stats, quarantine, persistent, durability);
    facts["stripe_bytes"] = info.striping.stripe_bytes;
    facts["bytes_by_part"] = bytes_by_part(*view->arena);
    return print_json(facts);
  }
  fmt::print("pool       {} (id {:016x})\n", arguments.spec, info.id);
  print_links(*device::parse_spec(arguments.spec), "file       {} ({} is a link)\n");
  fmt::print("owner      {}\n", info.owner.text());
  fmt::print("size       {} ({} bytes)\n", about(info.bytes), info.bytes);
  fmt::print("layout     version {}\n", device::layout_version);
  fmt::print("coherence  {}\n", coherence::mode_name(info.mode));
  fmt::print("created    {}\n", wall_text(info.created_wall_ns));
  fmt::print("processes  {} alive, {} dead\n", attached.alive, attached.dead);
  fmt::print("limits     {} ranks ({} process slots) on {} at once; tables {}\n", info.max_ranks(),
             info.max_processes, counted(info.max_nodes, "node"), about(info.arena_offset));
  fmt::print("objects    {} of at most {}; {} used of {}, largest free {}\n", stats.objects,
             stats.slots, about(stats.bytes_used), about(stats.bytes_total),
             about(stats.bytes_largest_free));
  print_parts(*view->arena);
  fmt::print("persistent {}, {}; {}\n", counted(persistent.objects, "object"),
             about(persistent.bytes), durability_text(durability));
  print_quarantine(arguments.spec, quarantine);
  warn_of_owner(arguments.spec);
  if (attached.dead > 0) {
    fmt::print("clean up   penstock pool gc {} --yes\n", shell_quote(arguments.spec));
  }
  return exit_ok;
}

/// Lists the pools of this host.
int list_pools(const PoolArguments& arguments) {
  const auto pools = host_pools();
  Refusals refusals;
  Json facts = Json::array();
  Table table({{"POOL"}, {"SIZE", Align::right}, {"COHERENCE"}, {"OWNER"}, {"CREATED"}});
  for (const HostPool& each : pools) {
    if (!each.info) {
      refusals.add(each.spec, each.info.error());
      continue;
    }
    const pool::Info& info = *each.info;
    const char* mode = coherence::mode_name(info.mode);
    const std::string created = wall_text(info.created_wall_ns);
    facts.push_back({{"spec", each.spec},
                     {"bytes", info.bytes},
                     {"mode", mode},
                     {"owner", info.owner.text()},
                     {"created", created}});
    table.add({each.spec, about(info.bytes), mode, info.owner.text(), created});
  }
  if (arguments.json) return print_json(facts);
  fmt::print("{}", table.text());
  if (pools.empty()) {
    fmt::print(stderr,
               "none in /dev/shm or on a device of this host; pools in files: penstock pool info "
               "FILE\n");
  }
  return exit_ok;
}

int list(const PoolArguments& arguments) {
  if (arguments.spec.empty()) return list_pools(arguments);
  auto view = look_at(arguments.spec);
  if (!view) return report(view.error());
  warn_of_owner(arguments.spec);
  Json facts = Json::array();
  Table table({{"NAME"},
               {"SIZE", Align::right},
               {"BYTES", Align::right},
               {"OFFSET", Align::right},
               {"LIFETIME"}});
  for (const arena::Object& object : view->arena->list()) {
    if (arena::is_reserved(object.name) && !arguments.all) continue;
    const char* lifetime = lifetime_text(*view->arena, object);
    facts.push_back({{"name", object.name},
                     {"offset", object.offset},
                     {"bytes", object.bytes},
                     {"generation", object.generation},
                     {"lifetime", lifetime}});
    table.add({base::printable(object.name), about(object.bytes), std::to_string(object.bytes),
               fmt::format("{:#x}", object.offset), lifetime});
  }
  if (arguments.json) return print_json(facts);
  fmt::print("{}", table.text());
  return exit_ok;
}

int remove(const PoolArguments& arguments) {
  if (!arguments.force) {
    const auto nothing_kept = check_nothing_kept(arguments.spec);
    if (!nothing_kept) return report(nothing_kept.error());
  }
  const auto parts = device::parse_spec(arguments.spec);  // while the links still lead to a file
  auto removed = pool::remove(arguments.spec, arguments.force);
  if (!removed) return report(removed.error());
  Json files = Json::array();
  for (const device::Part& part : *parts) files.push_back(part.path);
  if (arguments.json) return print_json({{"removed", arguments.spec}, {"files", files}});
  const bool by_link = std::any_of(parts->begin(), parts->end(),
                                   [](const device::Part& part) { return part.is_link(); });
  if (!by_link) fmt::print("removed {}\n", arguments.spec);
  print_links(*parts, "removed {}; the link {} that led there stays\n");
  return exit_ok;
}

CLI::App* add(CLI::App& parent, const char* name, const char* meaning,
              const std::shared_ptr<PoolArguments>& arguments,
              const std::function<int(const PoolArguments&)>& run, Action& chosen) {
  CLI::App* command = parent.add_subcommand(name, meaning);
  add_json_option(*command, arguments->json);
  command
      ->add_option(
          "SPEC", arguments->spec,
          "the pool: /dev/daxX.Y, a file's path, or shm:NAME; several joined by commas interleave")
      ->required();
  command->callback(
      [&chosen, arguments, run] { chosen = [arguments, run] { return run(*arguments); }; });
  return command;
}

}  // namespace

void add_pool_command(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<PoolArguments>();
  CLI::App* group = app.add_subcommand("pool", "create, inspect, clean up and remove pools");
  group->require_subcommand(1);

  CLI::App* create_command = add(*group, "create", "create a pool", arguments, create, chosen);
  create_command->add_option(
      "--size", arguments->size,
      "bytes, with K, M or G (left out: a whole devdax; with --overwrite as before)");
  create_command
      ->add_option("--mode", arguments->mode,
                   "what the memory needs; auto: hardware only where all processes that attach are "
                   "certainly on one host; with --overwrite as before")
      ->type_name("software|hardware|uncached|simulated|auto")
      ->capture_default_str();
  create_command->add_option("--group", arguments->group, "members of this group may attach too");
  CLI::Option* ranks =
      create_command
          ->add_option("--ranks", arguments->ranks,
                       fmt::format("ranks at once; each takes two process slots (left out: {}, or "
                                   "fewer in a small pool)",
                                   pool::default_ranks))
          ->check(CLI::Range(1u, pool::max_ranks));
  create_command
      ->add_option("--max-processes", arguments->slots,
                   "process slots, where others than ranks attach: instead of --ranks")
      ->check(CLI::Range(1u, pool::max_ranks * pool::slots_per_rank))
      ->excludes(ranks);
  create_command->add_option("--nodes,--max-nodes", arguments->nodes, "hosts at once")
      ->check(CLI::Range(1u, pool::max_nodes))
      ->capture_default_str();
  create_command->add_flag("--overwrite", arguments->overwrite, "replace an existing pool");
  create_command->add_flag(
      "--sparse", arguments->sparse,
      "reserve no space now: the files take it as objects are made, all of an object at once, and "
      "keep it until penstock pool gc SPEC --yes");

  CLI::App* info_command = add(
      *group, "info", "show size, coherence, owner and attached processes (default: PENSTOCK_POOL)",
      arguments, info, chosen);
  info_command->get_option("SPEC")->required(false);
  add_trust_option(*info_command);
  CLI::App* list_command =
      add(*group, "ls", "list the objects in a pool; without SPEC, the pools of this host",
          arguments, list, chosen);
  list_command->get_option("SPEC")->required(false);
  add_trust_option(*list_command);
  list_command->add_flag("--all", arguments->all, "also Penstock's own, which users cannot open");
  CLI::App* collect_command =
      add(*group, "gc", "show what dead processes left behind; with --yes, free it", arguments,
          collect_pool, chosen);
  add_trust_option(*collect_command);
  collect_command->add_flag("--yes", arguments->yes, "free it");
  collect_command->add_option(
      "--host-is-gone", arguments->gone_host,
      "as --yes, and wait no longer for the caches of this host, which is switched "
      "off for good (its name or its node's number)");
  collect_command->add_flag(
      "--discard-damaged-logs", arguments->discard_damaged_logs,
      "as --yes, and discard undo logs of dead processes that cannot be read: the objects that "
      "they wrote stay half changed");
  CLI::App* remove_command = add(*group, "rm", "remove the pool", arguments, remove, chosen);
  remove_command->add_flag("--force", arguments->force,
                           "also while processes are attached, and with persistent objects");
}

}  // namespace penstock::tools
