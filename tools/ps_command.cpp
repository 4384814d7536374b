// penstock ps SPEC: who is attached, and what each waits for.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include "command.hpp"
#include "penstock/transport.hpp"
#include "pool/visitor.hpp"
#include "processes.hpp"

namespace penstock::tools {
namespace {

struct PsArguments {
  std::string spec;
  bool json = false, all = false, peers = false;
};

void print_json(const std::vector<pool::ProcessRecord>& records) {
  fmt::print("[");
  const char* separator = "";
  for (const pool::ProcessRecord& r : records) {
    fmt::print("{}\n  {{\"slot\": {}, \"node\": {}, \"host\": {}, \"pid\": {}, \"rank\": {}, ",
               separator, r.slot, r.node, json_quote(r.host), r.pid, r.rank);
    if (r.emulated_node) fmt::print("\"emulated_node\": {}, ", *r.emulated_node);
    fmt::print("\"job\": {}, \"program\": {}, \"attached\": {}, \"alive\": {}, ", json_quote(r.job),
               json_quote(r.program), r.attached, r.alive);
    fmt::print("\"messages_sent\": {}, \"bytes_sent\": {}, \"messages_received\": {}, ",
               r.messages_sent, r.bytes_sent, r.messages_received);
    fmt::print("\"bytes_received\": {}, \"since\": {}, \"activity\": {}}}", r.bytes_received,
               json_quote(wall_text(r.attached_wall_ns)), json_quote(r.activity));
    separator = ",";
  }
  fmt::print("\n]\n");
}

const char* state_of(const pool::ProcessRecord& record) {
  if (!record.attached) return "left";
  return record.alive ? "alive" : "dead";
}

void print_table(const std::vector<pool::ProcessRecord>& records) {
  fmt::print("{:>4} {:>4} {:<16} {:>8} {:>4} {:<5} {:>10} {:>10} {:>10} {:>10}  {:<19} {}\n",
             "SLOT", "NODE", "HOST", "PID", "RANK", "STATE", "MSG OUT", "BYTES OUT", "MSG IN",
             "BYTES IN", "SINCE", "DOES");
  for (const pool::ProcessRecord& r : records) {
    fmt::print("{:>4} {:>4} {:<16} {:>8} {:>4} {:<5} {:>10} {:>10} {:>10} {:>10}  {:<19} {}\n",
               r.slot, r.node, r.host, r.pid, r.rank < 0 ? "-" : std::to_string(r.rank),
               state_of(r), r.messages_sent, about(r.bytes_sent), r.messages_received,
               about(r.bytes_received), wall_text(r.attached_wall_ns), r.activity);
  }
}

int show_processes(const PsArguments& arguments) {
  pool::AttachOptions options;
  options.spec = arguments.spec;
  options.observer = true;
  auto pool = pool::Pool::attach(options);
  if (!pool) return report(pool.error());
  auto records = by_process((*pool)->processes());
  if (!arguments.all) {
    std::erase_if(records, [](const pool::ProcessRecord& record) { return !record.attached; });
  }
  if (arguments.json) {
    print_json(records);
  } else {
    print_table(records);
  }
  return exit_ok;
}

/// "rank 3", or the process id of who has none; "gone" for who is not attached any more.
std::string name_of(std::uint64_t token, const std::vector<pool::ProcessRecord>& records) {
  for (const pool::ProcessRecord& r : records) {
    if (token == 0 || pool::make_token(r.generation, r.slot) != token) continue;
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
  auto view = look_at(arguments.spec);
  if (!view) return report(view.error());
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
      app.add_subcommand("ps", "who is attached to a pool, and what each waits for");
  command->add_option("SPEC", arguments->spec, "the pool")->required();
  command->add_flag("--json", arguments->json, "as JSON");
  command->add_flag("--all", arguments->all, "also those that have left, with their last counts");
  command->add_flag("--peers", arguments->peers,
                    "what each has exchanged with whom: messages, bytes, stalls for want of "
                    "credit, looks in vain");
  command->callback([&chosen, arguments] {
    chosen = [arguments] {
      return arguments->peers ? show_peers(*arguments) : show_processes(*arguments);
    };
  });
}

}  // namespace penstock::tools
