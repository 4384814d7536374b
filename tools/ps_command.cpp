// penstock ps SPEC: who is attached, and what each waits for.
#include <fmt/core.h>

#include <memory>

#include "command.hpp"

namespace penstock::tools {
namespace {

struct PsArguments {
  std::string spec;
  bool json = false, all = false;
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
  auto records = (*pool)->processes();
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

}  // namespace

void add_ps_command(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<PsArguments>();
  CLI::App* command =
      app.add_subcommand("ps", "who is attached to a pool, and what each waits for");
  command->add_option("SPEC", arguments->spec, "the pool")->required();
  command->add_flag("--json", arguments->json, "as JSON");
  command->add_flag("--all", arguments->all, "also those that have left, with their last counts");
  command->callback(
      [&chosen, arguments] { chosen = [arguments] { return show_processes(*arguments); }; });
}

}  // namespace penstock::tools
