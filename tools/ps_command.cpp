// penstock ps [SPEC]: the attached processes, and what each waits for.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/format.hpp"
#include "command.hpp"
#include "host_pools.hpp"
#include "pool/attaching.hpp"
#include "pool/host_identity.hpp"
#include "processes.hpp"
#include "transport/transport.hpp"

namespace penstock::tools {
namespace {

struct PsArguments {
  std::string spec;
  bool json = false, all = false, peers = false;
};

/// A stopped process is alive: it only does nothing. Seen for those of this host.
bool is_stopped(const pool::ProcessRecord& record) {
  const auto host = pool::this_host();
  const auto self = pool::this_process();
  if (!record.alive || !host || !self) return false;
  if (record.boot_id != pool::format_uuid(host->boot_id)) return false;
  if (record.pid_namespace != self->pid_namespace) return false;
  const auto seen = pool::read_proc_stat(static_cast<std::uint64_t>(record.pid));
  return seen && seen->start_time == record.start_time &&
         (seen->state == 'T' || seen->state == 't');
}

const char* state_of(const pool::ProcessRecord& record) {
  if (!record.attached) return "left";
  if (!record.alive) return "dead";
  return is_stopped(record) ? "stopped" : "alive";
}

/// The form of every message: emulated nodes by their own number.
std::uint32_t node_of(const pool::ProcessRecord& record) {
  return record.emulated_node.value_or(record.node);
}

void print_json(const std::string& spec, const std::vector<pool::ProcessRecord>& records,
                const char*& separator) {
  for (const pool::ProcessRecord& r : records) {
    fmt::print("{}\n  {{\"pool\": {}, \"slot\": {}, \"node\": {}, \"host\": {}, \"pid\": {}, ",
               separator, json_quote(spec), r.slot, node_of(r), json_quote(r.host), r.pid);
    fmt::print("\"rank\": {}, \"state\": {}, ", r.rank, json_quote(state_of(r)));
    if (r.emulated_node) fmt::print("\"emulated_node\": {}, ", *r.emulated_node);
    fmt::print("\"job\": {}, \"program\": {}, \"attached\": {}, \"alive\": {}, ", json_quote(r.job),
               json_quote(r.program), r.attached, r.alive);
    fmt::print("\"messages_sent\": {}, \"bytes_sent\": {}, \"messages_received\": {}, ",
               r.messages_sent, r.bytes_sent, r.messages_received);
    fmt::print("\"bytes_received\": {}, \"since\": {}, \"activity\": {}}}", r.bytes_received,
               json_quote(wall_text(r.attached_wall_ns)), json_quote(r.activity));
    separator = ",";
  }
}

/// Prints a column only if its entries differ.
struct Column {
  std::string title;
  std::string (*entry)(const pool::ProcessRecord&);
  std::size_t width = 0;

  void fit(const std::vector<pool::ProcessRecord>& records) {
    std::set<std::string> entries;
    for (const auto& record : records) entries.insert(entry(record));
    if (entries.size() < 2) return;
    width = title.size();
    for (const auto& text : entries) width = std::max(width, text.size());
  }
  std::string cell(const std::string& text) const {
    return width == 0 ? "" : fmt::format("{:<{}} ", text, width);
  }
};

void print_table(const std::vector<pool::ProcessRecord>& records) {
  Column job{"JOB", [](const auto& r) { return base::printable(r.job); }};
  Column program{"PROGRAM", [](const auto& r) { return base::printable(r.program); }};
  job.fit(records);
  program.fit(records);
  fmt::print("{:>4} {:>4} {:<16} {:>8} {:>4} {:<7} {}{}{:>10} {:>10} {:>10} {:>10}  {:<19} {}\n",
             "SLOT", "NODE", "HOST", "PID", "RANK", "STATE", job.cell("JOB"),
             program.cell("PROGRAM"), "MSG OUT", "BYTES OUT", "MSG IN", "BYTES IN", "SINCE",
             "DOES");
  for (const pool::ProcessRecord& r : records) {
    fmt::print("{:>4} {:>4} {:<16} {:>8} {:>4} {:<7} {}{}{:>10} {:>10} {:>10} {:>10}  {:<19} {}\n",
               r.slot, node_of(r), r.host, r.pid, r.rank < 0 ? "-" : std::to_string(r.rank),
               state_of(r), job.cell(job.entry(r)), program.cell(program.entry(r)), r.messages_sent,
               about(r.bytes_sent), r.messages_received, about(r.bytes_received),
               wall_text(r.attached_wall_ns), r.activity);
  }
}

Result<std::vector<pool::ProcessRecord>> processes_of(const PsArguments& arguments,
                                                      const std::string& spec) {
  auto pool = observe(spec);
  if (!pool) return unexpected(pool.error());
  auto records = by_process((*pool)->processes());
  if (!arguments.all) {
    std::erase_if(records, [](const pool::ProcessRecord& record) { return !record.attached; });
  }
  return records;
}

int show_pool(const PsArguments& arguments) {
  const auto records = processes_of(arguments, arguments.spec);
  if (!records) return report(records.error());
  warn_of_owner(arguments.spec);
  if (!arguments.json) {
    print_table(*records);
    return exit_ok;
  }
  const char* separator = "";
  fmt::print("[");
  print_json(arguments.spec, *records, separator);
  fmt::print("\n]\n");
  return exit_ok;
}

/// Every pool of this host that has attached processes.
int show_host(const PsArguments& arguments) {
  const char* separator = "";
  if (arguments.json) fmt::print("[");
  std::size_t pools = 0, used = 0;
  Refusals refusals;
  for (const HostPool& each : host_pools()) {
    ++pools;
    const auto records = processes_of(arguments, each.spec);
    if (!records) {
      refusals.add(each.spec, records.error());
      continue;
    }
    if (records->empty()) continue;
    if (arguments.json) {
      print_json(each.spec, *records, separator);
      continue;
    }
    fmt::print("{}pool {}\n", used++ == 0 ? "" : "\n", each.spec);
    print_table(*records);
  }
  if (arguments.json) {
    fmt::print("\n]\n");
  } else if (used == 0) {
    fmt::print("nobody is attached to a pool of this host ({}); pools in files: penstock ps FILE\n",
               counted(pools, "pool"));
  }
  return exit_ok;
}

int show_processes(const PsArguments& arguments) {
  return arguments.spec.empty() ? show_host(arguments) : show_pool(arguments);
}

/// "rank 3", or the process id if it has no rank; "gone" if it is no longer attached.
std::string name_of(std::uint64_t token, const std::vector<pool::ProcessRecord>& records) {
  for (const pool::ProcessRecord& r : records) {
    if (token == 0 || r.token() != token) continue;
    return r.rank >= 0 ? fmt::format("rank {}", r.rank) : fmt::format("pid {}", r.pid);
  }
  return "gone";
}

void print_peers_json(const std::vector<transport::PeerCounts>& rows,
                      const std::vector<pool::ProcessRecord>& records) {
  fmt::print("[");
  const char* separator = "";
  for (const transport::PeerCounts& row : rows) {
    fmt::print("{}\n  {{\"endpoint\": {}, \"process\": {}, \"peer_endpoint\": {}, \"peer\": {}, ",
               separator, row.endpoint, json_quote(name_of(row.token, records)), row.peer,
               json_quote(name_of(row.peer_token, records)));
    fmt::print("\"messages_sent\": {}, \"bytes_sent\": {}, \"stalls\": {}, ",
               row.counts.messages_sent, row.counts.bytes_sent, row.counts.stalls);
    fmt::print("\"messages_received\": {}, \"bytes_received\": {}, \"retries\": {}}}",
               row.counts.messages_received, row.counts.bytes_received, row.counts.retries);
    separator = ",";
  }
  fmt::print("\n]\n");
}

void print_peers_table(const std::vector<transport::PeerCounts>& rows,
                       const std::vector<pool::ProcessRecord>& records) {
  fmt::print("{:<12} {:<12} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}\n", "PROCESS", "PEER",
             "MSG OUT", "BYTES OUT", "STALLS", "MSG IN", "BYTES IN", "RETRIES");
  for (const transport::PeerCounts& row : rows) {
    fmt::print("{:<12} {:<12} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}\n",
               name_of(row.token, records), name_of(row.peer_token, records),
               row.counts.messages_sent, about(row.counts.bytes_sent), row.counts.stalls,
               row.counts.messages_received, about(row.counts.bytes_received), row.counts.retries);
  }
}

int show_peers(const PsArguments& arguments) {
  if (arguments.spec.empty()) {
    return report({ErrorCode::invalid_argument,
                   "--peers of which pool? penstock ps --peers SPEC; penstock pool ls lists them"});
  }
  auto view = look_at(arguments.spec);
  if (!view) return report(view.error());
  warn_of_owner(arguments.spec);
  const auto records = view->pool->processes();
  auto rows = transport::peer_counts(*view->arena);
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(a.endpoint, a.peer) < std::pair(b.endpoint, b.peer);
  });
  if (arguments.json) {
    print_peers_json(rows, records);
  } else {
    print_peers_table(rows, records);
  }
  return exit_ok;
}

}  // namespace

void add_ps_command(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<PsArguments>();
  CLI::App* command =
      app.add_subcommand("ps", "show the processes attached to a pool, and what each waits for");
  command->add_option("SPEC", arguments->spec,
                      "the pool (default: PENSTOCK_POOL, else all pools of this host)");
  add_trust_option(*command);
  command->add_flag("--json", arguments->json, "as JSON");
  command->add_flag("--all", arguments->all, "also those that have left, with their last counts");
  command->add_flag("--peers", arguments->peers,
                    "for each pair of processes: messages, bytes, stalls for want of credit, polls "
                    "in vain");
  command->callback([&chosen, arguments] {
    chosen = [arguments] {
      arguments->spec = named_or_set(arguments->spec);
      return arguments->peers ? show_peers(*arguments) : show_processes(*arguments);
    };
  });
}

}  // namespace penstock::tools
