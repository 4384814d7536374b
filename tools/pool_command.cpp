// penstock pool create | info | ls | gc | rm
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "base/env.hpp"
#include "base/format.hpp"
#include "command.hpp"
#include "facts.hpp"
#include "host_pools.hpp"
#include "persist/recovery.hpp"
#include "pool/host_identity.hpp"
#include "pool/node_caches.hpp"
#include "processes.hpp"
#include "table.hpp"

namespace penstock::tools {
namespace {

struct PoolArguments {
  std::string spec, size, mode = "auto", group;
  std::uint32_t ranks = 0, slots = 0, nodes = pool::default_nodes;
  std::string gone_host;
  bool overwrite = false, sparse = false, json = false, yes = false, force = false;
};

constexpr const char* lifetime_name(arena::Lifetime lifetime) {
  if (lifetime == arena::Lifetime::persistent) return "persistent";
  return lifetime == arena::Lifetime::process ? "process" : "pool";
}

/// "gone" of one that was destroyed meanwhile.
const char* lifetime_text(const arena::Arena& arena, const arena::Object& object) {
  const auto lifetime = arena.lifetime(object);
  return lifetime ? lifetime_name(*lifetime) : "gone";
}

struct Persistent {
  std::uint64_t objects = 0, bytes = 0;
};

/// Those of users: what transactions keep beside them has names of the product.
Persistent count_persistent(const arena::Arena& arena) {
  Persistent count;
  for (const arena::Object& object : arena.list()) {
    const auto lifetime = arena.lifetime(object);
    if (!lifetime || *lifetime != arena::Lifetime::persistent) continue;
    if (object.name.starts_with("penstock.")) continue;
    ++count.objects;
    count.bytes += object.bytes;
  }
  return count;
}

/// Of a pool that cannot be read nothing is known: it can be removed.
Result<void> check_nothing_kept(const std::string& spec) {
  const auto view = look_at(spec);
  if (!view) return {};
  const Persistent kept = count_persistent(*view->arena);
  if (kept.objects == 0) return {};
  return fail(ErrorCode::unavailable,
              "pool {} keeps {} ({}): what they are: penstock pool ls {}; to lose them: penstock "
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
  if (arguments.ranks > pool::max_ranks) {
    return report(
        Error{ErrorCode::invalid_argument,
              fmt::format("{} ranks asked for, a pool holds at most {}: give --ranks {} or fewer",
                          arguments.ranks, pool::max_ranks, pool::max_ranks)});
  }
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
  // Looked at once, so that its arena is formatted and looking takes no process slot later.
  const auto view = look_at(arguments.spec);
  if (!view) {
    (void)pool::remove(arguments.spec, true);
    return report(view.error());
  }
  if (!arguments.json) {
    fmt::print("created {}: {}, {} coherence, at most {} ranks on {}, id {:016x}\n", arguments.spec,
               about(info->bytes), coherence::mode_name(info->mode), info->max_ranks(),
               counted(info->max_nodes, "node"), info->id);
  }
  if (arguments.sparse && pool::parse_spec(arguments.spec)->size() > 1) {
    fmt::print(stderr,
               "penstock: warn: no space was reserved: when its file system is full, programs that "
               "write to {} end by SIGBUS; to reserve it, leave --sparse out\n",
               arguments.spec);
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
  for (const pool::ProcessRecord& record : by_process(pool.processes())) {
    if (!record.attached) continue;
    ++(record.alive ? count.alive : count.dead);
  }
  return count;
}

const char* durability_text(pool::Durability durability) {
  switch (durability) {
    case pool::Durability::none:
      return "nothing is kept when this host is switched off";
    case pool::Durability::file:
      return "what was committed is kept, in the file";
    case pool::Durability::device:
      return "what has reached the device is kept, as long as the device keeps it";
  }
  return "";
}

/// Nothing of a pool of one part.
void print_parts(const arena::Arena& arena) {
  const pool::Striping& striping = arena.pool().info().striping;
  if (striping.parts < 2) return;
  std::string used;
  for (const std::uint64_t bytes : bytes_by_part(arena))
    used += (used.empty() ? "" : ", ") + about(bytes);
  fmt::print("parts      {} in stripes of {}; objects take {}\n", striping.parts,
             about(striping.stripe_bytes), used);
}

Json info_facts(const pool::Info& info, const Attached& attached, const arena::Stats& stats,
                const arena::Quarantine& quarantine, const Persistent& persistent,
                pool::Durability durability) {
  Json facts = pool_facts(info);
  facts.update({{"alive", attached.alive},
                {"dead", attached.dead},
                {"durability", pool::durability_name(durability)},
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

/// Space that is not allocated before a node has flushed its caches, and the command that ends
/// that.
void print_quarantine(const std::string& spec, const arena::Quarantine& quarantine) {
  if (quarantine.bytes == 0) return;
  fmt::print("quarantine {} in {}: processes died that had stored there\n", about(quarantine.bytes),
             counted(quarantine.extents, "extent"));
  if (quarantine.waits_for.empty()) {
    fmt::print("           all nodes have flushed their caches: the space is free\n");
  }
  for (const auto& node : quarantine.waits_for) {
    const std::string name = node.host.empty() ? "?" : base::printable(node.host);
    fmt::print("           {} waits for node {} (host {}) to flush its caches: {}\n",
               about(node.bytes), node.node, name,
               node.alive ? "at its next heartbeat"
                          : fmt::format(
                                "on it, run penstock pool gc {} --yes; if it will never "
                                "come back: penstock pool gc {} --host-is-gone {}",
                                shell_quote(spec), shell_quote(spec),
                                node.host.empty() ? std::to_string(node.node) : shell_quote(name)));
  }
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
  const pool::Durability durability = view->pool->durability();
  if (arguments.json) {
    Json facts = info_facts(info, attached, stats, quarantine, persistent, durability);
    facts["stripe_bytes"] = info.striping.stripe_bytes;
    facts["bytes_by_part"] = bytes_by_part(*view->arena);
    return print_json(facts);
  }
  fmt::print("pool       {} (id {:016x})\n", arguments.spec, info.id);
  fmt::print("owner      {}\n", info.owner.text());
  fmt::print("size       {} ({} bytes)\n", about(info.bytes), info.bytes);
  fmt::print("layout     version {}\n", pool::layout_version);
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

/// The pools of this host.
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

/// Lists the dead, one record each. It only looks: a full attach would free what they left.
Result<std::vector<pool::ProcessRecord>> find_dead(const std::string& spec) {
  auto pool = observe(spec);
  if (!pool) return unexpected(pool.error());
  PENSTOCK_TRY((*pool)->make_certain());
  auto dead = by_process((*pool)->processes());
  std::erase_if(dead, [](const pool::ProcessRecord& p) { return !p.attached || p.alive; });
  return dead;
}

int show_dead(const PoolArguments& arguments) {
  const auto dead = find_dead(arguments.spec);
  if (!dead) return report(dead.error());
  warn_of_owner(arguments.spec);
  if (arguments.json) {
    Json facts = {{"pool", arguments.spec}, {"dead", Json::array()}, {"freed", nullptr}};
    for (const auto& process : *dead)
      facts["dead"].push_back(process_facts(arguments.spec, process));
    return print_json(facts);
  }
  for (const auto& process : *dead) fmt::print("dead: {}\n", pool::describe(process));
  fmt::print("{} left slots and objects behind\n", counted(dead->size(), "dead process"));
  if (!dead->empty()) {
    fmt::print(stderr, "nothing was changed; penstock pool gc {} --yes frees it\n",
               shell_quote(arguments.spec));
  }
  return exit_ok;
}

/// Caches of simulated nodes on which no process is left. Their unpublished stores are lost, as
/// when a host is switched off.
Result<void> remove_caches(const std::string& spec, arena::Arena& arena, Json& freed) {
  const auto parts = PENSTOCK_TRY(pool::parse_spec(spec));
  freed["caches"] = pool::remove_unused_node_caches(parts.front().path);
  for (const auto& node : arena.quarantine().waits_for) {
    if (node.alive || node.host != pool::this_host()->host) continue;
    if (auto ended = arena.end_quarantine_of(node.node); !ended) return ended;
  }
  return {};
}

/// A node that is said to be gone has no living process, under any name: the containers of a
/// machine have their own names, and one node.
Result<std::vector<std::uint32_t>> if_nobody_lives_there(const pool::Pool& pool,
                                                         const std::string& name,
                                                         const std::vector<std::uint32_t>& nodes) {
  for (const pool::ProcessRecord& record : pool.processes()) {
    if (!record.attached || !record.alive) continue;
    if (std::find(nodes.begin(), nodes.end(), record.node) == nodes.end()) continue;
    return fail(ErrorCode::unavailable,
                "host {} is not gone: {} lives there; its caches are flushed at its heartbeats",
                name, pool.describe(record.token()));
  }
  return nodes;
}

/// Another host has had the node's number since: that of a host without processes serves again.
bool number_is_anothers(const pool::ProcessRecord& record,
                        const std::vector<pool::ProcessRecord>& records) {
  return std::any_of(records.begin(), records.end(), [&](const pool::ProcessRecord& other) {
    return other.node == record.node && other.boot_id != record.boot_id &&
           other.host != record.host && other.attached_wall_ns > record.attached_wall_ns;
  });
}

/// The nodes of a host that is named by its name, or one by its number. Errors: not_found, and
/// unavailable where a process of it lives.
Result<std::vector<std::uint32_t>> nodes_of_host(const pool::Pool& pool,
                                                 const arena::Quarantine& quarantine,
                                                 const std::string& name) {
  std::vector<std::uint32_t> found;
  const auto records = pool.processes();
  for (const pool::ProcessRecord& record : records) {
    if (record.host != name && std::to_string(record.node) != name) continue;
    if (record.host == name && number_is_anothers(record, records)) continue;
    if (std::find(found.begin(), found.end(), record.node) == found.end())
      found.push_back(record.node);
  }
  for (const auto& node : quarantine.waits_for) {  // its records may have gone to others
    if (found.empty() && std::to_string(node.node) == name) found.push_back(node.node);
  }
  if (!found.empty()) return if_nobody_lives_there(pool, name, found);
  return fail(ErrorCode::not_found,
              "no process of a host {} was ever attached to pool {}; which hosts it waits for: "
              "penstock pool info {}",
              name, pool.info().spec, shell_quote(pool.info().spec));
}

Result<void> forget_host(const std::string& name, arena::Arena& arena, Json& freed) {
  const auto nodes = PENSTOCK_TRY(nodes_of_host(arena.pool(), arena.quarantine(), name));
  for (const std::uint32_t node : nodes) {
    if (auto ended = arena.end_quarantine_of(node); !ended) return ended;
    freed["nodes_gone"].push_back(node);
  }
  return {};
}

std::set<ProcessKey> attached_to(const pool::Pool& pool) {
  std::set<ProcessKey> found;
  for (const auto& record : pool.processes())
    if (record.attached) found.insert(process_key(record));
  return found;
}

Result<std::set<ProcessKey>> attached_to(const std::string& spec) {
  auto pool = PENSTOCK_TRY(observe(spec));
  return attached_to(*pool);
}

/// How many of them are not attached any more: a process that has two slots is one.
std::size_t gone_of(const std::set<ProcessKey>& before, const pool::Pool& pool) {
  const auto now = attached_to(pool);
  return static_cast<std::size_t>(
      std::count_if(before.begin(), before.end(),
                    [&](const ProcessKey& process) { return now.count(process) == 0; }));
}

void print_freed(const Json& freed, const std::string& gone_host) {
  fmt::print("freed: {}, {}, {}\n", counted(freed["processes"], "dead process"),
             counted(freed["objects"], "object"), about(freed["bytes"]));
  for (const std::uint32_t node : freed["nodes_gone"])
    fmt::print("nothing waits for node {} of host {} any more\n", node, gone_host);
  if (freed.contains("caches"))
    fmt::print("freed: caches of {}\n", counted(freed["caches"], "simulated node"));
  if (freed.contains("logs_undone"))
    fmt::print("undone: {}\n", counted(freed["logs_undone"], "transaction log"));
}

void print_waiting_logs(const std::string& spec, const Json& waiting) {
  for (const Json& log : waiting)
    fmt::print(
        "waits      for node {}, where {} died within a transaction, to flush its caches: on it, "
        "run penstock pool gc {} --yes; if it will never come back: penstock pool gc {} "
        "--host-is-gone {}\n",
        log["node"].get<std::uint32_t>(), log["owner"].get<std::string>(), shell_quote(spec),
        shell_quote(spec), log["node"].get<std::uint32_t>());
}

/// Transactions that dead processes began.
Result<void> undo_transactions(arena::Arena& arena, Json& freed) {
  const auto recovered = PENSTOCK_TRY(persist::collect(arena));
  if (recovered.logs != 0) freed["logs_undone"] = recovered.logs;
  for (const auto& waiting : recovered.waiting)
    freed["logs_waiting"].push_back({{"node", waiting.node}, {"owner", waiting.owner}});
  return {};
}

int collect(const PoolArguments& arguments) {
  if (!arguments.yes && arguments.gone_host.empty()) return show_dead(arguments);
  const auto before = attached_to(arguments.spec);
  if (!before) return report(before.error());
  pool::AttachOptions options;
  options.spec = arguments.spec;
  auto pool = pool::Pool::attach(options);
  if (!pool) return report(pool.error());
  // The first look at a process of another host only starts its lease.
  if (auto certain = (*pool)->make_certain(); !certain) return report(certain.error());
  arena::Arena::Reclaimed freed_by_opening;  // most of it
  auto arena = arena::Arena::open(**pool, &freed_by_opening);
  if (!arena) return report(arena.error());
  auto found = (*arena)->collect();
  if (!found) return report(found.error());
  Json freed = {{"processes", gone_of(*before, **pool)},
                {"objects", freed_by_opening.objects + found->objects},
                {"bytes", freed_by_opening.bytes + found->bytes},
                {"nodes_gone", Json::array()}};
  Result<void> ended;
  if (!arguments.gone_host.empty()) ended = forget_host(arguments.gone_host, **arena, freed);
  if (ended && (*pool)->info().mode == coherence::Mode::simulated)
    ended = remove_caches(arguments.spec, **arena, freed);
  if (ended) ended = undo_transactions(**arena, freed);
  if (!arguments.json) print_freed(freed, arguments.gone_host);
  if (!ended) return report(ended.error());
  const arena::Quarantine quarantine = (*arena)->quarantine();
  if (!arguments.json) {
    if (freed.contains("logs_waiting")) print_waiting_logs(arguments.spec, freed["logs_waiting"]);
    print_quarantine(arguments.spec, quarantine);
    return exit_ok;
  }
  return print_json({{"pool", arguments.spec},
                     {"dead", Json::array()},
                     {"freed", freed},
                     {"bytes_quarantined", quarantine.bytes},
                     {"quarantine", quarantine_facts(quarantine)}});
}

int remove(const PoolArguments& arguments) {
  if (!arguments.force) {
    const auto nothing_kept = check_nothing_kept(arguments.spec);
    if (!nothing_kept) return report(nothing_kept.error());
  }
  auto removed = pool::remove(arguments.spec, arguments.force);
  if (!removed) return report(removed.error());
  if (arguments.json) return print_json({{"removed", arguments.spec}});
  fmt::print("removed {}\n", arguments.spec);
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
  CLI::Option* ranks = create_command->add_option(
      "--ranks", arguments->ranks,
      fmt::format("ranks at once, at most {}; each takes two process slots (left out: {}, or fewer "
                  "in a small pool)",
                  pool::max_ranks, pool::default_ranks));
  create_command
      ->add_option("--max-processes", arguments->slots,
                   "process slots, where others than ranks attach: instead of --ranks")
      ->excludes(ranks);
  create_command
      ->add_option("--nodes,--max-nodes", arguments->nodes,
                   fmt::format("hosts at once, at most {}", pool::max_nodes))
      ->capture_default_str();
  create_command->add_flag("--overwrite", arguments->overwrite, "replace an existing pool");
  create_command->add_flag("--sparse", arguments->sparse,
                           "reserve no space: files take it as they are written to (for trials)");

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
  CLI::App* collect_command =
      add(*group, "gc", "show what dead processes left behind; with --yes, free it", arguments,
          collect, chosen);
  add_trust_option(*collect_command);
  collect_command->add_flag("--yes", arguments->yes, "free it");
  collect_command->add_option(
      "--host-is-gone", arguments->gone_host,
      "as --yes, and wait no longer for the caches of this host, which is switched "
      "off for good (its name or its node's number)");
  CLI::App* remove_command = add(*group, "rm", "remove the pool", arguments, remove, chosen);
  remove_command->add_flag("--force", arguments->force,
                           "also while processes are attached, and with persistent objects");
}

}  // namespace penstock::tools
