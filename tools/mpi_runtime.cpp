#include "mpi_runtime.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "elf_needs.hpp"
#include "locations.hpp"

namespace penstock::tools {
namespace {

constexpr std::uint64_t answer_timeout_ns = 10'000'000'000;
constexpr std::size_t answer_bytes = 64 * 1024;

std::string read_answer(int fd) {
  std::string text;
  const std::uint64_t end_ns = base::now_ns() + answer_timeout_ns;
  while (text.size() < answer_bytes) {
    const std::uint64_t now_ns = base::now_ns();
    if (now_ns >= end_ns) break;
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>((end_ns - now_ns) / 1'000'000 + 1)) <= 0) break;
    char part[4096];
    const auto got = read(fd, part, sizeof part);
    if (got <= 0) break;
    text.append(part, static_cast<std::size_t>(got));
  }
  return text;
}

/// What `program --version` prints, "" when it cannot be run.
std::string version_answer(const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  std::string path = program, option = "--version";
  char* arguments[] = {path.data(), option.data(), nullptr};
  pid_t child = -1;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  if (failed == 0) {
    text = read_answer(ends[0]);
    kill(child, SIGKILL);  // a program that knows no --version may be waiting for something
    waitpid(child, nullptr, 0);
  }
  close(ends[0]);
  return text;
}

/// The word after `label` in `text`.
std::string word_after(const std::string& text, std::string_view label) {
  auto at = text.find(label);
  if (at == std::string::npos) return "";
  at = text.find_first_not_of(" \t", at + label.size());
  if (at == std::string::npos) return "";
  return text.substr(at, text.find_first_of(" \t\r\n", at) - at);
}

void read_version(const std::string& answer, MpiRuntime& runtime) {
  using Kind = MpiRuntime::Kind;
  runtime.answer = answer.substr(0, answer.find('\n'));
  if (answer.find("Intel(R) MPI") != std::string::npos) {
    runtime.kind = Kind::intel;
    runtime.version = word_after(answer, "Version");
  } else if (answer.find("HYDRA") != std::string::npos) {
    runtime.kind = Kind::mpich;
    runtime.version = word_after(answer, "Version:");
  } else if (answer.find("Open MPI") != std::string::npos ||
             answer.find("OpenRTE") != std::string::npos) {
    runtime.kind = Kind::open_mpi;
    runtime.version = word_after(
        answer, answer.find("OpenRTE") != std::string::npos ? "(OpenRTE)" : "(Open MPI)");
  }
}

std::vector<std::string> library_folders(const std::string& mpiexec) {
  std::vector<std::string> folders;
  for (const std::string& program : {mpiexec, resolved(mpiexec)}) {
    const std::string prefix = folder_of(folder_of(program));
    for (const char* folder : {"/lib", "/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
                               "/lib/mpich/lib", "/lib64/mpich/lib"}) {
      folders.push_back(prefix + folder);
    }
  }
  return folders;
}

std::vector<std::string> library_names(MpiRuntime::Kind kind) {
  if (kind == MpiRuntime::Kind::open_mpi) return {"libmpi.so.40"};
  return {"libmpi.so.12", "libmpich.so.12"};
}

bool needs_libfabric(const std::string& library) {
  const auto needs = elf_needs(library);
  return needs && std::any_of(needs->begin(), needs->end(), [](const std::string& name) {
           return name.starts_with("libfabric.so");
         });
}

/// Where libfabric itself looks: the "libfabric" folder beside the library of that name.
std::string default_provider_folder(const std::string& library) {
  const std::string folder = folder_of(library);
  for (const std::string& candidate :
       {folder + "/mpich/libfabric", folder + "/libfabric",
        std::string("/usr/lib/x86_64-linux-gnu/libfabric"), std::string("/usr/lib64/libfabric")}) {
    if (is_folder(candidate)) return candidate;
  }
  return "";
}

void find_library(MpiRuntime& runtime) {
  for (const std::string& folder : library_folders(runtime.mpiexec)) {
    for (const std::string& name : library_names(runtime.kind)) {
      const std::string path = folder + "/" + name;
      if (!is_file(path)) continue;
      runtime.library = path;
      runtime.has_libfabric = needs_libfabric(path);
      if (runtime.has_libfabric) runtime.provider_folder = default_provider_folder(path);
      return;
    }
  }
}

const char* kind_name(MpiRuntime::Kind kind) {
  switch (kind) {
    case MpiRuntime::Kind::mpich:
      return "MPICH";
    case MpiRuntime::Kind::open_mpi:
      return "Open MPI";
    case MpiRuntime::Kind::intel:
      return "Intel MPI";
    case MpiRuntime::Kind::unknown:
      break;
  }
  return "an unknown MPI";
}

}  // namespace

std::string MpiRuntime::name() const {
  return fmt::format("{}{}{} ({})", kind_name(kind), version.empty() ? "" : " ", version, mpiexec);
}

Result<MpiRuntime> inspect_mpi(const std::string& mpiexec) {
  const std::string path = find_on_path(mpiexec);
  if (path.empty()) {
    return fail(Code::not_found, "{} is absent or not a program; install an MPI with '{}'", mpiexec,
                install_mpich_command);
  }
  MpiRuntime runtime;
  runtime.mpiexec = path;
  read_version(version_answer(path), runtime);
  find_library(runtime);
  return runtime;
}

Result<void> usable(const MpiRuntime& runtime) {
  if (runtime.kind == MpiRuntime::Kind::unknown) {
    return fail(Code::mismatch,
                "{} does not answer --version as an MPI does (but \"{}\"); name another with "
                "--mpiexec PATH, or install one with '{}'",
                runtime.mpiexec, runtime.answer, install_mpich_command);
  }
  if (runtime.kind != MpiRuntime::Kind::mpich) {
    return fail(Code::mismatch,
                "{} is not MPICH, which Penstock needs for now; install it with '{}'",
                runtime.name(), install_mpich_command);
  }
  if (runtime.library.empty()) {
    return fail(Code::not_found,
                "the libmpi of {} was not found beside it, so it cannot be told whether it has "
                "libfabric; name another with --mpiexec PATH, or install one with '{}'",
                runtime.name(), install_mpich_command);
  }
  if (!runtime.has_libfabric) {
    return fail(
        Code::mismatch,
        "{} is built without libfabric ({} does not need libfabric.so.1), so it cannot load "
        "Penstock's provider; install one that can with '{}'",
        runtime.name(), runtime.library, install_mpich_command);
  }
  return {};
}

std::vector<std::string> mpiexec_candidates(const std::string& program) {
  std::vector<std::string> candidates;
  auto add = [&](const std::string& path) {
    if (is_program(path) &&
        std::find(candidates.begin(), candidates.end(), path) == candidates.end()) {
      candidates.push_back(path);
    }
  };
  // In a virtual environment bin/python is a link to the system's: look beside the link.
  const std::string found = program.empty() ? "" : find_on_path(program);
  if (!found.empty()) add(folder_of(found) + "/mpiexec");
  if (const char* environment = std::getenv("VIRTUAL_ENV")) {
    add(std::string(environment) + "/bin/mpiexec");
  }
  for (const std::string& path : all_on_path("mpiexec")) add(path);
  add(resolved(".") + "/.venv/bin/mpiexec");
  return candidates;
}

Result<MpiRuntime> find_mpi(const std::string& given, const std::string& program) {
  const auto candidates =
      given.empty() ? mpiexec_candidates(program) : std::vector<std::string>{given};
  Result<MpiRuntime> refused =
      fail(Code::not_found,
           "no mpiexec was found (beside the program, in $VIRTUAL_ENV, on the PATH, in ./.venv); "
           "install one with '{}'",
           install_mpich_command);
  bool first = true;
  for (const std::string& candidate : candidates) {
    auto runtime = inspect_mpi(candidate);
    if (!runtime) {
      if (first) refused = runtime;
    } else {
      auto verdict = usable(*runtime);
      if (verdict) return runtime;
      if (first) refused = tl::unexpected(verdict.error());
    }
    first = false;
  }
  return refused;
}

}  // namespace penstock::tools
