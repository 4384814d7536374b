// penstock doctor coherence SPEC: two hosts together find out what their memory needs.
#include <CLI/CLI.hpp>

#include "base/env.hpp"
#include "base/format.hpp"
#include "command.hpp"
#include "doctor.hpp"
#include "facts.hpp"
#include "litmus/rendezvous.hpp"
#include "table.hpp"

namespace penstock::tools {
namespace {

using litmus::Kind;
using litmus::Trial;

struct CoherenceArguments {
  std::string spec;
  std::optional<std::uint32_t> node;
  std::uint64_t rounds = 1000;
  std::uint32_t timeout_s = 60;
  bool json = false;
};

std::string name_of(const pool::ProcessRecord& record) {
  return fmt::format("pid {} on host {}, {}", record.pid, record.host, pool::node_text(record));
}

Result<View> attach(const CoherenceArguments& arguments) {
  pool::AttachOptions options;
  options.spec = arguments.spec;
  options.emulated_node = arguments.node;
  if (!arguments.node) {
    options.emulated_node = PENSTOCK_TRY(base::env_index("PENSTOCK_NODE"));
  }
  auto pool = PENSTOCK_TRY(pool::Pool::attach(options));
  auto arena = PENSTOCK_TRY(arena::Arena::open(*pool));
  return View{std::move(pool), std::move(arena)};
}

void print_counts(const litmus::Report& report) {
  Table table({{"HOW A LINE PASSES"},
               {"RIGHT", Align::right},
               {"STALE", Align::right},
               {"TORN", Align::right},
               {"WRONG", Align::right}});
  for (std::uint32_t i = 0; i < litmus::trial_count; ++i) {
    const auto trial = static_cast<Trial>(i);
    const litmus::Counts sum = report.sum(trial);
    table.add({litmus::trial_name(trial), std::to_string(sum.right), std::to_string(sum.stale),
               std::to_string(sum.torn), std::to_string(sum.wrong)});
  }
  fmt::print("{}", table.text());
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::coherent:
      return "coherent";
    case Kind::software:
      return "software";
    case Kind::no_partial_stores:
      return "no_partial_stores";
    case Kind::unusable:
      break;
  }
  return "unusable";
}

Json facts_of(const litmus::Outcome& outcome, const pool::Info& info, const Findings& findings) {
  Json between = Json::array(), trials = Json::array();
  for (const pool::ProcessRecord& side : outcome.who)
    between.push_back({{"host", side.host}, {"pid", side.pid}, {"node", node_of(side)}});
  for (std::uint32_t i = 0; i < litmus::trial_count; ++i) {
    const auto trial = static_cast<Trial>(i);
    const litmus::Counts sum = outcome.report.sum(trial);
    trials.push_back({{"how", litmus::trial_name(trial)},
                      {"right", sum.right},
                      {"stale", sum.stale},
                      {"torn", sum.torn},
                      {"wrong", sum.wrong}});
  }
  return {{"ok", !findings.failed()},
          {"pool", info.spec},
          {"mode", coherence::mode_name(info.mode)},
          {"memory", kind_name(litmus::judge(outcome.report).kind)},
          {"same_host", outcome.same_host},
          {"rounds", outcome.report.rounds},
          {"between", between},
          {"trials", trials},
          {"findings", finding_facts(findings)}};
}

std::string found_text(const litmus::Verdict& verdict) {
  switch (verdict.kind) {
    case Kind::coherent:
      return "coherent: plain loads of one side see plain stores of the other, also where they "
             "held a copy";
    case Kind::software:
    case Kind::no_partial_stores: {
      const char* missing = "either write-back or invalidation";
      if (verdict.needs_write_back && verdict.needs_invalidate) {
        missing = "write-back by the writer and invalidation by the reader";
      } else if (verdict.needs_write_back) {
        missing = "write-back by the writer";
      } else if (verdict.needs_invalidate) {
        missing = "invalidation by the reader";
      }
      return fmt::format("not coherent: lines pass with {}", missing);
    }
    case Kind::unusable:
      break;
  }
  return "unusable: lines do not pass even with write-back and invalidation: " + verdict.why;
}

std::string create_command(const pool::Info& info, const char* mode) {
  return fmt::format("penstock pool create {} --size {} --mode {} --overwrite",
                     shell_quote(info.spec), info.bytes, mode);
}

/// Judges memory whose lines pass only with flushes.
void judge_software(Findings& findings, const pool::Info& info) {
  const std::string mode = coherence::mode_name(info.mode);
  if (info.mode == coherence::Mode::software) {
    findings.ok("mode: software, as this memory needs");
  } else if (info.mode == coherence::Mode::simulated) {
    findings.ok("mode: simulated; a device like this needs --mode software");
  } else {
    findings.fail(fmt::format("mode: {} gives wrong results on this memory", mode),
                  create_command(info, "software") + " (replaces the pool)");
  }
}

void judge_coherent(Findings& findings, const litmus::Outcome& outcome, const pool::Info& info) {
  const std::string mode = coherence::mode_name(info.mode);
  if (outcome.same_host) {
    findings.warn(
        fmt::format("both sides ran on the same host ({}): this says nothing about other hosts; "
                    "mode {} stays as it is",
                    outcome.who[0].host, mode),
        fmt::format("on two hosts: penstock doctor coherence {}", shell_quote(info.spec)));
  } else if (info.mode == coherence::Mode::hardware) {
    findings.ok("mode: hardware, which this memory allows");
  } else {
    findings.ok(
        fmt::format("mode: {} is right here; hardware needs no flushes: {} (replaces the "
                    "pool; test each pair of hosts first)",
                    mode, create_command(info, "hardware")));
  }
}

/// Judges the property that processes of one host rely on; emulated hosts share their caches.
void judge_intra_node(Findings& findings, const litmus::Outcome& outcome, const pool::Info& info,
                      const litmus::Verdict& verdict) {
  const bool simulated = info.mode == coherence::Mode::simulated;
  const bool same_caches = simulated ? outcome.same_node : outcome.same_host;
  if (!same_caches || verdict.kind == Kind::unusable || verdict.intra_node_holds) return;
  const litmus::Counts intra_node = outcome.report.sum(Trial::intra_node);
  findings.fail(
      fmt::format(
          "plain loads missed a payload whose flag they had seen, in {} of {} rounds on one "
          "host: channels between processes of one host count on its caches",
          intra_node.looks() - intra_node.right, intra_node.looks()),
      "a mapping of the device that the host's own caches keep coherent (write-back)");
}

Findings judge(const litmus::Outcome& outcome, const pool::Info& info) {
  Findings findings;
  const litmus::Verdict verdict = litmus::judge(outcome.report);
  const std::string found = found_text(verdict);
  switch (verdict.kind) {
    case Kind::coherent:
      findings.ok(found);
      judge_coherent(findings, outcome, info);
      break;
    case Kind::software:
      findings.ok(found);
      judge_software(findings, info);
      break;
    case Kind::no_partial_stores: {
      findings.ok(found);
      const litmus::Counts words = outcome.report.sum(Trial::words);
      findings.fail(
          fmt::format(
              "words that two hosts publish into one line at once destroy each other (in {} "
              "of {} looks): eight senders share a line of a mailbox, so messages would "
              "be lost; neither MPI nor windows can use this memory between hosts",
              words.looks() - words.right, words.looks()),
          "a device, or firmware of it, that honours byte enables of partial writes");
      break;
    }
    case Kind::unusable:
      findings.fail(found,
                    "see the device's and the host bridge's settings; no mode of a pool "
                    "works between these hosts");
      break;
  }
  judge_intra_node(findings, outcome, info, verdict);
  if (outcome.report.sum(Trial::stream).torn > 0) {
    findings.ok("some lines were seen in parts, the last word last: a pool allows for that");
  }
  return findings;
}

Error help_with(Error error, const CoherenceArguments& arguments, const pool::Info& info) {
  if (error.code != ErrorCode::deadline) return error;
  error.message += fmt::format(
      "; start it on both hosts within {} s of each other (--timeout): "
      "penstock doctor coherence {}",
      arguments.timeout_s, shell_quote(arguments.spec));
  if (info.mode == coherence::Mode::hardware) {
    error.message +=
        ". The pool is in hardware mode: hosts that are not coherent do not find each other in it; "
        "test on a pool of software mode, which is right in any case";
  }
  return error;
}

int test_coherence(const CoherenceArguments& arguments) {
  auto view = attach(arguments);
  if (!view) return report(view.error());
  const pool::Info& info = view->pool->info();
  litmus::Options options;
  options.rounds = arguments.rounds;
  options.timeout_ns = arguments.timeout_s * std::uint64_t{1'000'000'000};
  options.alone = [&arguments] {
    fmt::print(stderr,
               "waiting {} s for the other side; on the other host run: penstock doctor coherence "
               "{}\n",
               arguments.timeout_s, shell_quote(arguments.spec));
  };
  options.started = [](const litmus::Outcome& met) {
    fmt::print(stderr, "between {} and {}: {} rounds each way\n", name_of(met.who[0]),
               name_of(met.who[1]), met.report.rounds);
  };
  auto outcome = litmus::run(*view->arena, options);
  if (!outcome) return report(help_with(outcome.error(), arguments, info));
  const Findings findings = judge(*outcome, info);
  if (!arguments.json) {
    print_counts(outcome->report);
    return print(findings);
  }
  print_json(facts_of(*outcome, info, findings));
  return findings.failed() ? exit_error : exit_ok;
}

}  // namespace

void add_coherence_command(CLI::App& doctor, Action& chosen) {
  auto arguments = std::make_shared<CoherenceArguments>();
  CLI::App* command = doctor.add_subcommand(
      "coherence",
      "run on two hosts: find out what their memory needs, and which mode a pool on "
      "it must have");
  command->add_option("SPEC", arguments->spec, "a pool that both hosts can attach to")->required();
  add_json_option(*command, arguments->json);
  command
      ->add_option("--node", arguments->node,
                   "act for this emulated node (default: PENSTOCK_NODE, else the host)")
      ->check(CLI::Range(0u, pool::last_emulated_node));
  command
      ->add_option("--rounds", arguments->rounds,
                   "rounds of each trial; the first side's number counts")
      ->check(CLI::Range(std::uint64_t{1}, litmus::max_rounds))
      ->capture_default_str();
  command
      ->add_option("--timeout", arguments->timeout_s,
                   "seconds to wait for the other side, and for each of its steps")
      ->check(CLI::Range(1u, 86400u))
      ->capture_default_str();
  command->callback(
      [&chosen, arguments] { chosen = [arguments] { return test_coherence(*arguments); }; });
}

}  // namespace penstock::tools
