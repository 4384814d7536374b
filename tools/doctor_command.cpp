// penstock doctor: can this host, and this pool, be used?
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "base/numa.hpp"
#include "command.hpp"
#include "device/part.hpp"
#include "doctor.hpp"
#include "facts.hpp"
#include "pool/members.hpp"
#include "processes.hpp"
#include "terminal.hpp"

namespace penstock::tools {

Findings Findings::sorted() const {
  Findings sorted = *this;
  std::stable_sort(sorted.all_.begin(), sorted.all_.end(),
                   [](const Finding& a, const Finding& b) { return a.verdict > b.verdict; });
  return sorted;
}

bool Findings::failed() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Finding& each) { return each.verdict == Verdict::fail; });
}

const char* verdict_name(Verdict verdict) {
  if (verdict == Verdict::ok) return "ok";
  return verdict == Verdict::warn ? "warn" : "fail";
}

int print(const Findings& findings) {
  for (const Finding& finding : findings.all()) {
    const Colour colour = finding.verdict == Verdict::ok     ? Colour::green
                          : finding.verdict == Verdict::warn ? Colour::yellow
                                                             : Colour::red;
    fmt::print("{}  {}{}{}\n",
               coloured(colour, fmt::format("{:<4}", verdict_name(finding.verdict))), finding.what,
               finding.fix.empty() ? "" : "  -> ", finding.fix);
  }
  return findings.failed() ? exit_error : exit_ok;
}

namespace {

struct DoctorArguments {
  std::string spec;  ///< with `program`: its first argument
  std::vector<std::string> more;
  std::string program, mpiexec;
  bool json = false;
  Roots roots;
};

void check_dead(Findings& findings, const pool::Pool& pool, const std::string& spec) {
  std::uint32_t alive = 0, dead = 0;
  for (const pool::ProcessRecord& record : by_process(pool.members().processes())) {
    if (record.attached) ++(record.alive ? alive : dead);
  }
  const std::string what = fmt::format("{}: {} processes alive, {} dead, {} slots", spec, alive,
                                       dead, pool.info().max_processes);
  if (dead > 0) {
    findings.warn(what, fmt::format("penstock pool gc {} --yes", shell_quote(spec)));
  } else {
    findings.ok(what);
  }
}

void check_space(Findings& findings, const arena::Arena& arena, const std::string& spec) {
  const arena::Stats stats = arena.stats();
  const std::string what =
      fmt::format("{}: {} of {} used, largest free {}", spec, about(stats.bytes_used),
                  about(stats.bytes_total), about(stats.bytes_largest_free));
  if (stats.bytes_largest_free < stats.bytes_total / 20) {
    findings.warn(what, fmt::format("penstock pool gc {}; penstock pool ls {}", shell_quote(spec),
                                    shell_quote(spec)));
  } else {
    findings.ok(what);
  }
}

void check_pool(Findings& findings, const std::string& spec) {
  auto view = look_at(spec);
  if (!view) {
    findings.fail(view.error().message, "");
    return;
  }
  const pool::Info& info = view->pool->info();
  findings.ok(fmt::format("{}: layout version {}, {}, {} coherence, {}", spec,
                          device::layout_version, about(info.bytes),
                          coherence::mode_name(info.mode), info.owner.text()));
  if (auto trusted = device::check_owner(spec); !trusted)
    findings.warn(trusted.error().message, "");
  if (auto parts = device::open_parts(spec, device::Access::write); !parts)
    findings.fail(parts.error().message, "");
  check_dead(findings, *view->pool, spec);
  check_space(findings, *view->arena, spec);
}

int tell(const Findings& findings, bool json) {
  if (!json) return print(findings);
  print_json({{"ok", !findings.failed()}, {"findings", finding_facts(findings)}});
  return findings.failed() ? exit_error : exit_ok;
}

int diagnose_program(const DoctorArguments& arguments) {
  std::vector<std::string> command = {arguments.program};
  if (!arguments.spec.empty()) command.push_back(arguments.spec);
  command.insert(command.end(), arguments.more.begin(), arguments.more.end());
  Findings findings;
  check_program(findings, command, arguments.mpiexec);
  return tell(findings, arguments.json);
}

int diagnose(const DoctorArguments& arguments) {
  if (!arguments.program.empty()) return diagnose_program(arguments);
  if (!arguments.more.empty()) {
    return report({ErrorCode::invalid_argument,
                   fmt::format("{} is one word too many: penstock doctor SPEC, or penstock doctor "
                               "--for PROGRAM -- ARGUMENTS",
                               arguments.more.front())});
  }
  Findings findings;
  const Roots& roots = arguments.roots;
  check_cpu(findings, roots);
  check_cores(findings);
  check_shared_memory(findings);
  check_logout(findings, roots, ::geteuid());
  check_cgroup(findings, roots, arguments.spec);
  check_huge_pages(findings, roots);
  check_devices(findings, roots);
  check_nearness(findings, roots, base::own_cpus());
  check_provider(findings);
  check_mpi(findings, arguments.mpiexec);
  check_windows(findings);
  check_variables(findings);
  if (!arguments.spec.empty()) check_pool(findings, arguments.spec);
  check_offer(findings, arguments.spec);
  return tell(findings.sorted(), arguments.json);
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand(
      "doctor",
      "check whether this host and a pool can be used; each finding names what fixes "
      "it");
  command->add_option("SPEC", arguments->spec, "check this pool too");
  command->add_option("ARGUMENTS", arguments->more,
                      "with --for: those of the program, behind --, in place of SPEC");
  command
      ->add_option("--for", arguments->program,
                   "tell which way this program's messages, windows and collectives go, and the "
                   "command that runs it over a pool")
      ->type_name("PROGRAM");
  command->add_option("--mpiexec", arguments->mpiexec, "check this MPI only");
  add_trust_option(*command);
  add_json_option(*command, arguments->json);
  // Other roots, by which tests show devices that this host lacks.
  command->add_option("--sys", arguments->roots.sys)->group("");
  command->add_option("--proc", arguments->roots.proc)->group("");
  command->add_option("--dev", arguments->roots.dev)->group("");
  command->add_option("--system", arguments->roots.system)->group("");
  add_coherence_command(*command, chosen);
  command->callback([&chosen, arguments, command] {
    if (command->get_subcommands().empty()) chosen = [arguments] { return diagnose(*arguments); };
  });
}

}  // namespace penstock::tools
