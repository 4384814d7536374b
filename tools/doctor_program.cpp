// penstock doctor --for PROGRAM: which way a program's messages, windows and collectives go.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/format.hpp"
#include "doctor.hpp"
#include "locations.hpp"
#include "mpi_choice.hpp"
#include "program_uses.hpp"

namespace penstock::tools {
namespace {

using base::shell_quote;

constexpr const char* nccl_exports = "eval \"$(penstock env --nccl --pool SPEC)\"; ";

std::string words_of(const std::vector<std::string>& command) {
  std::string words;
  for (const std::string& word : command) words += (words.empty() ? "" : " ") + shell_quote(word);
  return words;
}

void tell_program(Findings& findings, const ProgramUses& uses) {
  if (uses.python) {
    const PythonUses& python = *uses.python;
    std::string what = fmt::format("program: {}, by Python {} ({})",
                                   python.script.empty() ? uses.path : python.script,
                                   python.version, python.interpreter);
    for (const std::string& package : {python.mpi4py, python.torch})
      if (!package.empty()) what += "; uses " + package;
    findings.ok(what);
    if (!python.missing.empty()) {
      findings.fail(
          fmt::format("modules that this Python lacks: {}", fmt::join(python.missing, ", ")),
          fmt::format("{} -m pip install {}", shell_quote(python.interpreter),
                      fmt::join(python.missing, " ")));
    }
  } else if (!uses.shell.empty()) {
    findings.warn(fmt::format("program: {} is a script of {}, and what it starts is not known",
                              uses.path, uses.shell),
                  "penstock doctor --for the program that it starts");
  } else {
    findings.ok(fmt::format("program: {}", uses.path));
  }
  if (!uses.absent.empty()) {
    findings.fail(
        fmt::format("libraries that the loader does not find: {}", fmt::join(uses.absent, ", ")),
        "LD_LIBRARY_PATH=FOLDER:$LD_LIBRARY_PATH, or install their packages");
  }
}

/// Calls that the preloaded library leaves to the MPI, by the beginning of their names.
struct Left {
  const char* begins;
  const char* why;
};
constexpr Left left_to_mpi[] = {
    {"mpi_neighbor_", "neighbourhood collectives"},
    {"mpi_ineighbor_", "neighbourhood collectives"},
    {"mpi_alltoallw", "MPI_Alltoallw"},
    {"mpi_ialltoallw", "MPI_Alltoallw"},
    {"mpi_win_create_dynamic", "dynamic windows"},
    {"mpi_intercomm_create", "collectives of intercommunicators"},
};

void tell_left(Findings& findings, const ProgramUses& uses) {
  const auto calls = [&uses](std::string_view begins) {
    return std::any_of(uses.calls.begin(), uses.calls.end(),
                       [&](const std::string& call) { return call.starts_with(begins); });
  };
  std::vector<std::string> left;
  for (const Left& each : left_to_mpi)
    if (calls(each.begins) && (left.empty() || left.back() != each.why)) left.push_back(each.why);
  if (!left.empty()) {
    findings.ok(fmt::format("made by the MPI itself, with messages through the pool: {}",
                            fmt::join(left, ", ")));
  }
  if (calls("mpi_win_create") && !calls("mpi_alloc_mem")) {
    findings.warn(
        "windows of MPI_Win_create over memory that MPI_Alloc_mem did not give stay with "
        "the MPI",
        "MPI_Win_allocate, or MPI_Alloc_mem before MPI_Win_create");
  }
  if (calls("mpi_file_"))
    findings.ok("files of MPI-IO stay files: their data do not pass the pool");
}

void tell_mpi(Findings& findings, const ProgramUses& uses, const MpiRuntime& runtime) {
  std::string why;
  if (!uses.libmpi.empty())
    why = fmt::format(": {} is linked with {}", uses.libmpi_user, uses.libmpi);
  else if (uses.python && !uses.python->mpi4py.empty())
    why = ": mpi4py takes the MPI that it is run by";
  findings.ok(fmt::format("MPI: {}{}", runtime.name(), why));
  if (const auto provider = provider_library()) {
    findings.ok(fmt::format("messages: through the pool, by {}", *provider));
  } else {
    findings.fail(provider.error().message, "make build");
  }
  if (uses.privileged) {
    findings.warn(fmt::format("windows and collectives: stay with the MPI, because {} is setuid or "
                              "setgid and the loader preloads nothing into it",
                              uses.path),
                  fmt::format("chmod ug-s {}", shell_quote(uses.path)));
  } else if (const auto windows = windows_to_preload(findings)) {
    findings.ok(fmt::format("windows and collectives: through the pool, by {}", *windows));
  }
  tell_left(findings, uses);
}

/// Returns whether the program calls NCCL.
bool tell_groups(Findings& findings, const PythonUses& python) {
  bool nccl = false, penstock = false;
  for (const TorchGroup& group : python.groups) {
    if (group.backend.empty()) {
      findings.ok(fmt::format(
          "torch: {} {}; penstock carries it, and nccl with the NCCL library preloaded",
          group.place,
          group.named ? "takes its back end at run time" : "leaves the back end to torch"));
      penstock = true;
    } else if (group.backend.find("penstock") != std::string::npos) {
      findings.ok(
          fmt::format("torch: {} has the back end penstock: through the pool", group.place));
      penstock = true;
    } else if (group.backend.find("nccl") != std::string::npos) {
      findings.ok(fmt::format(
          "torch: {} has the back end {}: what calls NCCL goes through the pool, by the preloaded "
          "library",
          group.place, group.backend));
      nccl = true;
    } else {
      findings.warn(fmt::format("torch: {} has the back end {}, which stays outside the pool",
                                group.place, group.backend),
                    "init_process_group(\"penstock\")");
    }
  }
  if (penstock && !python.has_penstock) {
    findings.warn(
        fmt::format("torch: {} has no package penstock, which brings the back end",
                    python.interpreter),
        fmt::format("{} -m pip install . in Penstock's source", shell_quote(python.interpreter)));
  }
  return nccl;
}

void tell_torch_command(Findings& findings, const ProgramUses& uses,
                        const std::vector<std::string>& command, bool nccl) {
  std::vector<std::string> run = command;
  const bool has_launcher = uses.path != uses.python->script && !uses.python->script.empty() &&
                            resolved(uses.path) != resolved(uses.python->interpreter);
  if (!has_launcher) {
    const auto script = std::find(command.begin(), command.end(), uses.python->script);
    run = {folder_of(uses.python->interpreter) + "/torchrun", "--nproc-per-node", "2"};
    run.insert(run.end(), script, command.end());
  }
  findings.ok(fmt::format("run: {}{}", nccl ? nccl_exports : "", words_of(run)));
}

}  // namespace

void check_program(Findings& findings, const std::vector<std::string>& command,
                   const std::string& mpiexec) {
  for (const char* launcher : {"mpiexec", "mpirun", "srun"}) {
    if (name_of(command.front()).starts_with(launcher)) {
      return findings.fail(fmt::format("{} is a launcher, and not the program", command.front()),
                           "penstock doctor --for PROGRAM -- ARGUMENTS");
    }
  }
  const auto found = program_uses(command.front(), {command.begin() + 1, command.end()});
  if (!found) return findings.fail(found.error().message, "");
  const ProgramUses& uses = *found;
  tell_program(findings, uses);
  if (findings.failed()) return;
  if (uses.static_mpi) {
    return findings.fail(
        fmt::format("MPI: {} has an MPI in itself, which cannot load the provider", uses.path),
        "link it with the MPI's shared library: mpicc without -static");
  }
  const bool torch = uses.python && !uses.python->torch.empty();
  bool nccl = torch && tell_groups(findings, *uses.python);
  if (!uses.libnccl_user.empty()) {
    findings.ok(
        fmt::format("NCCL: {} is linked with libnccl.so.2: through the pool, by the "
                    "preloaded library",
                    uses.libnccl_user));
    nccl = true;
  }
  const bool mpi = !uses.libmpi.empty() || (uses.python && !uses.python->mpi4py.empty());
  if (!mpi && torch) return tell_torch_command(findings, uses, command, nccl);
  if (!mpi && nccl) {
    return findings.ok(fmt::format("run: {}{}", nccl_exports, words_of(command)));
  }
  if (!mpi) {
    return findings.warn(
        "no MPI, NCCL or torch.distributed is seen in the program: what it loads later does not "
        "show",
        fmt::format("penstock run -n 2 -- {}; it says whether a process used the pool",
                    words_of(command)));
  }
  const auto runtime = find_mpi(
      {.kind = std::nullopt, .mpiexec = mpiexec, .program = uses.path, .libmpi = uses.libmpi});
  if (!runtime) return findings.fail(runtime.error().message, "");
  tell_mpi(findings, uses, *runtime);
  if (findings.failed()) return;
  findings.ok(fmt::format("run: penstock run -n 2{}{} -- {}",
                          mpiexec.empty() ? "" : " --mpiexec " + shell_quote(mpiexec),
                          nccl ? " --nccl" : "", words_of(command)));
}

}  // namespace penstock::tools
