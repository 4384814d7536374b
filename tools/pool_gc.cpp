// penstock pool gc: shows and frees what dead processes left.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/format.hpp"
#include "command.hpp"
#include "facts.hpp"
#include "persist/recovery.hpp"
#include "pool/host_identity.hpp"
#include "pool/members.hpp"
#include "pool/node_caches.hpp"
#include "pool_arguments.hpp"
#include "processes.hpp"

namespace penstock::tools {

/// Space that is not free before a node has flushed its caches, and the command that ends the wait.
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

namespace {

/// Lists the dead, one record each. Does not attach in full: that would free what they left.
Result<std::vector<pool::ProcessRecord>> find_dead(const std::string& spec) {
  auto pool = observe(spec);
  if (!pool) return unexpected(pool.error());
  PENSTOCK_TRY((*pool)->members().make_certain());
  auto dead = by_process((*pool)->members().processes());
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

/// Removes caches of simulated nodes on which no process is left. Their unpublished stores are
/// lost, as when a host is switched off.
Result<void> remove_caches(const std::string& spec, arena::Arena& arena, Json& freed) {
  const auto parts = PENSTOCK_TRY(device::parse_spec(spec));
  freed["caches"] = pool::remove_unused_node_caches(parts.front().path);
  for (const auto& node : arena.quarantine().waits_for) {
    if (node.alive || node.host != pool::this_host()->host) continue;
    if (auto ended = arena.end_quarantine_of(node.node); !ended) return ended;
  }
  return {};
}

/// A node that is said to be gone must have no living process, under any name: the containers of a
/// machine have different names, but are one node.
Result<std::vector<std::uint32_t>> check_none_alive(const pool::Pool& pool, const std::string& name,
                                                    const std::vector<std::uint32_t>& nodes) {
  for (const pool::ProcessRecord& record : pool.members().processes()) {
    if (!record.attached || !record.alive) continue;
    if (std::find(nodes.begin(), nodes.end(), record.node) == nodes.end()) continue;
    return fail(ErrorCode::unavailable,
                "host {} is not gone: {} lives there; its caches are flushed at its heartbeats",
                name, pool.describe(record.token()));
  }
  return nodes;
}

/// Whether another host has the node's number by now: the number of a host without processes is
/// reused.
bool number_was_reused(const pool::ProcessRecord& record,
                       const std::vector<pool::ProcessRecord>& records) {
  return std::any_of(records.begin(), records.end(), [&](const pool::ProcessRecord& other) {
    return other.node == record.node && other.boot_id != record.boot_id &&
           other.host != record.host && other.attached_wall_ns > record.attached_wall_ns;
  });
}

/// The nodes of a host given by its name, or one node given by its number. Errors: not_found;
/// unavailable if one of its processes lives.
Result<std::vector<std::uint32_t>> nodes_of_host(const pool::Pool& pool,
                                                 const arena::Quarantine& quarantine,
                                                 const std::string& name) {
  std::vector<std::uint32_t> found;
  const auto records = pool.members().processes();
  for (const pool::ProcessRecord& record : records) {
    if (record.host != name && std::to_string(record.node) != name) continue;
    if (record.host == name && number_was_reused(record, records)) continue;
    if (std::find(found.begin(), found.end(), record.node) == found.end())
      found.push_back(record.node);
  }
  for (const auto& node : quarantine.waits_for) {  // others may have reused its records
    if (found.empty() && std::to_string(node.node) == name) found.push_back(node.node);
  }
  if (!found.empty()) return check_none_alive(pool, name, found);
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
  for (const auto& record : pool.members().processes())
    if (record.attached) found.insert(process_key(record));
  return found;
}

Result<std::set<ProcessKey>> attached_to(const std::string& spec) {
  auto pool = PENSTOCK_TRY(observe(spec));
  return attached_to(*pool);
}

/// How many of them are no longer attached: a process with two slots counts once.
std::size_t gone_of(const std::set<ProcessKey>& before, const pool::Pool& pool) {
  const auto now = attached_to(pool);
  return static_cast<std::size_t>(
      std::count_if(before.begin(), before.end(),
                    [&](const ProcessKey& process) { return now.count(process) == 0; }));
}

void print_freed(const Json& freed, const std::string& gone_host) {
  fmt::print("freed: {}, {}, {}\n", counted(freed["processes"], "dead process"),
             counted(freed["objects"], "object"), about(freed["bytes"]));
  if (freed["bytes_to_system"] != 0)
    fmt::print("given back to the file system: {}\n", about(freed["bytes_to_system"]));
  for (const std::uint32_t node : freed["nodes_gone"])
    fmt::print("nothing waits for node {} of host {} any more\n", node, gone_host);
  if (freed.contains("caches"))
    fmt::print("freed: caches of {}\n", counted(freed["caches"], "simulated node"));
  if (freed.contains("logs_undone"))
    fmt::print("undone: {}\n", counted(freed["logs_undone"], "transaction log"));
  if (freed.contains("logs_discarded"))
    fmt::print("discarded: {}; their objects are as their processes left them\n",
               counted(freed["logs_discarded"].size(), "damaged log"));
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

/// Undoes transactions of dead processes.
Result<void> undo_transactions(arena::Arena& arena, persist::DamagedLogs damaged, Json& freed) {
  const auto recovered = PENSTOCK_TRY(persist::collect(arena, damaged));
  if (!recovered.discarded.empty()) freed["logs_discarded"] = recovered.discarded;
  if (recovered.logs != 0) freed["logs_undone"] = recovered.logs;
  for (const auto& waiting : recovered.waiting)
    freed["logs_waiting"].push_back({{"node", waiting.node}, {"owner", waiting.owner}});
  return {};
}

}  // namespace

int collect_pool(const PoolArguments& arguments) {
  const bool frees =
      arguments.yes || arguments.discard_damaged_logs || !arguments.gone_host.empty();
  if (!frees) return show_dead(arguments);
  const auto before = attached_to(arguments.spec);
  if (!before) return report(before.error());
  pool::AttachOptions options;
  options.spec = arguments.spec;
  auto pool = pool::Pool::attach(options);
  if (!pool) return report(pool.error());
  // The first look at a process of another host only starts its lease.
  if (auto certain = (*pool)->members().make_certain(); !certain) return report(certain.error());
  arena::Arena::Reclaimed freed_by_opening;  // opening frees most of it
  auto arena = arena::Arena::open(**pool, &freed_by_opening);
  if (!arena) return report(arena.error());
  auto found = (*arena)->collect();
  if (!found) return report(found.error());
  Json freed = {{"processes", gone_of(*before, **pool)},
                {"objects", freed_by_opening.objects + found->objects},
                {"bytes", freed_by_opening.bytes + found->bytes},
                {"bytes_to_system", found->bytes_to_system},
                {"nodes_gone", Json::array()}};
  Result<void> ended;
  if (!arguments.gone_host.empty()) ended = forget_host(arguments.gone_host, **arena, freed);
  if (ended && (*pool)->info().mode == coherence::Mode::simulated)
    ended = remove_caches(arguments.spec, **arena, freed);
  const auto damaged =
      arguments.discard_damaged_logs ? persist::DamagedLogs::discard : persist::DamagedLogs::keep;
  if (ended) ended = undo_transactions(**arena, damaged, freed);
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

}  // namespace penstock::tools
