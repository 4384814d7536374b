// penstock switch SPEC: a process that plays a switch that computes (docs/protocols/switch.md).
#include <fmt/core.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "accelerator/server.hpp"
#include "base/env.hpp"
#include "base/wait.hpp"
#include "command.hpp"
#include "json.hpp"
#include "pool/members.hpp"

namespace penstock::tools {

namespace {

struct SwitchArguments {
  std::string spec;
  double missing_after_s = 0;
  std::uint32_t leaves = 0;
  std::optional<std::uint32_t> leaf;
  bool json = false;
};

volatile sig_atomic_t ended_by = 0;

extern "C" void note_signal(int signal) {
  ended_by = signal;
}

/// SIGTERM, SIGINT and SIGHUP end the loop, and the claim is given back.
void end_by_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
}

/// Between two looks in vain: spins while work may arrive at once, and sleeps once none has arrived
/// for long.
class Idle {
 public:
  explicit Idle(bool pays) : policy_(base::WaitPolicy::for_processes(pays ? 1 : ~0u)) {}
  void busy() { looks_ = 0; }
  void rest() {
    ++looks_;
    if (looks_ < policy_.spins) return;
    if (looks_ < policy_.spins + policy_.yields) return base::Backoff::yield();
    const std::uint64_t sleeps = looks_ - policy_.spins - policy_.yields;
    const std::uint64_t ns =
        std::min(policy_.sleep_ns * (1 + sleeps / sleeps_of_a_length), longest_sleep_ns);
    const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(ns)};
    nanosleep(&pause, nullptr);
  }

 private:
  // Sleeps grow: a switch that has been unused for a second costs little of a core.
  static constexpr std::uint64_t sleeps_of_a_length = 256, longest_sleep_ns = 1'000'000;
  base::WaitPolicy policy_;
  std::uint64_t looks_ = 0;
};

Json facts_of(const accelerator::Server& server) {
  const accelerator::Counts counts = server.counts();
  return {{"communicators", server.communicators_ever()},
          {"chunks", counts.chunks},
          {"commands", counts.commands},
          {"completions", counts.completions},
          {"failures", counts.failures},
          {"gathered_bytes", counts.traffic.gathered_bytes},
          {"result_bytes", counts.traffic.result_bytes},
          {"reduced_bytes", counts.traffic.reduced_bytes}};
}

void print_end(const accelerator::Server& server, const std::string& spec) {
  const accelerator::Counts counts = server.counts();
  fmt::print(
      "pool {} is served no more: {}, {}, {} read, {} written{}\n", spec,
      counted(server.communicators_ever(), "communicator"), counted(counts.chunks, "chunk"),
      about(counts.traffic.gathered_bytes), about(counts.traffic.result_bytes),
      counts.failures == 0 ? "" : fmt::format("; {} given up", counted(counts.failures, "chunk")));
}

Result<void> serve(const SwitchArguments& arguments, const std::string& spec) {
  PENSTOCK_TRY(check_use(spec));
  const auto node = PENSTOCK_TRY(base::env_index("PENSTOCK_NODE"));
  accelerator::ServerOptions options;
  options.attach = [&](const pool::AttachOptions& asked) {
    pool::AttachOptions attach = asked;
    attach.spec = spec;
    attach.emulated_node = node;
    return pool::Pool::attach(attach);
  };
  const offload::Role role{arguments.leaf ? 1 + *arguments.leaf : 0, arguments.leaves};
  options.role = role;
  options.missing_after_ns = static_cast<std::uint64_t>(arguments.missing_after_s * 1e9);
  end_by_signals();
  const auto server = PENSTOCK_TRY(accelerator::Server::open(std::move(options)));
  if (arguments.json)
    fmt::print("{}",
               json_line({{"pool", spec}, {"role", offload::text_of(role)}, {"pid", ::getpid()}}));
  else
    fmt::print("pool {} is served by this {}, {}; SIGTERM or Ctrl-C ends it\n", spec,
               offload::text_of(role), server->pool().describe(server->pool().token()));
  std::fflush(stdout);
  Idle idle(server->pool().members().local_processes() <= base::usable_cpus());
  while (ended_by == 0 && !server->lost()) server->poll() ? idle.busy() : idle.rest();
  auto closed = server->close();
  if (server->lost()) closed = unexpected(*server->lost());
  arguments.json ? (void)print_json(facts_of(*server)) : print_end(*server, spec);
  return closed;
}

int run_switch(const SwitchArguments& arguments) {
  const std::string spec = named_or_set(arguments.spec);
  if (spec.empty())
    return report({ErrorCode::invalid_argument,
                   "a switch needs a pool, and none is named: penstock switch SPEC, or set "
                   "PENSTOCK_POOL"});
  if (arguments.leaf && *arguments.leaf >= arguments.leaves)
    return report({ErrorCode::invalid_argument,
                   fmt::format("leaf {} of {}: leaves count from 0; name how many there are by "
                               "--leaves",
                               *arguments.leaf, arguments.leaves)});
  const auto served = serve(arguments, spec);
  return served ? exit_ok : report(served.error());
}

}  // namespace

void add_switch_command(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<SwitchArguments>();
  CLI::App* command = app.add_subcommand(
      "switch", "play a switch that computes: serve the collectives of jobs on a pool");
  command->add_option("SPEC", arguments->spec, "the pool (default: PENSTOCK_POOL)");
  command
      ->add_option("--missing-after", arguments->missing_after_s,
                   "seconds after which the ranks of a collective that one has not come to go on "
                   "without the switch (default: never)")
      ->check(CLI::Range(0.0, 86400.0));
  command
      ->add_option("--leaves", arguments->leaves,
                   "play the spine of a tree of so many leaf switches; with --leaf a leaf of it")
      ->check(CLI::Range(1u, offload::max_leaves));
  command->add_option("--leaf", arguments->leaf, "play the leaf of this number, from 0")
      ->check(CLI::Range(0u, offload::max_leaves - 1));
  add_trust_option(*command);
  add_json_option(*command, arguments->json);
  command->footer(
      "Jobs use it where PENSTOCK_COLL_SWITCH=always, or where the pool's tuning table says "
      "switch=1.\nWhen it ends or dies they go on through the plain pool.\nA tree of switches: "
      "penstock switch "
      "SPEC --leaves 2, and two more with --leaves 2 --leaf 0 and\n--leaf 1; hosts hang on the "
      "leaves in turn.");
  command->callback(
      [&chosen, arguments] { chosen = [arguments] { return run_switch(*arguments); }; });
}

}  // namespace penstock::tools
