// Checks the MPI, the provider library and the library for windows.
#include <dlfcn.h>

#include "doctor.hpp"
#include "locations.hpp"
#include "mpi_choice.hpp"

namespace penstock::tools {

void check_provider(Findings& findings) {
  auto library = provider_library();
  if (library) {
    findings.ok(fmt::format("provider: {}", *library));
  } else {
    findings.fail(library.error().message, "make build");
  }
}

std::optional<std::string> windows_to_preload(Findings& findings) {
  const auto library = window_library();
  if (!library) {
    const bool absent = library.error().code == ErrorCode::not_found;
    findings.fail(library.error().message, absent ? "make build" : "");
    return std::nullopt;
  }
  if (!can_preload) {
    findings.warn(fmt::format("windows: {} has a sanitizer in it and is not preloaded", *library),
                  "make build, without -fsanitize in CMAKE_ARGS");
    return std::nullopt;
  }
  void* const loaded = ::dlopen(library->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    findings.fail(fmt::format("windows: {} cannot be loaded: {}", *library, ::dlerror()),
                  "make build");
    return std::nullopt;
  }
  ::dlclose(loaded);
  return *library;
}

void check_windows(Findings& findings) {
  if (const auto library = windows_to_preload(findings))
    findings.ok(fmt::format("windows: {}, for every MPI", *library));
}

namespace {

/// Returns true if this MPI can be used. Only for the one that a job would use is it a failure if
/// not.
bool check_one(Findings& findings, const std::string& mpiexec, bool needed) {
  auto runtime = inspect_mpi(mpiexec);
  auto verdict = runtime ? usable(*runtime) : Result<void>(tl::unexpected(runtime.error()));
  if (verdict) {
    findings.ok(fmt::format("MPI: {}, libfabric in {}", runtime->name(), runtime->library));
    return true;
  }
  std::string what = fmt::format("MPI: {}", verdict.error().message);
  if (needed) {
    findings.fail(std::move(what), install_command(MpiKind::mpich));
  } else {
    findings.warn(std::move(what), "");
  }
  return false;
}

}  // namespace

void check_mpi(Findings& findings, const std::string& mpiexec) {
  if (!mpiexec.empty()) {
    check_one(findings, mpiexec, true);
    return;
  }
  const auto candidates = mpiexec_candidates("");
  if (candidates.empty()) {
    findings.fail("MPI: no mpiexec in $VIRTUAL_ENV, on the PATH or in ./.venv",
                  install_command(MpiKind::mpich));
    return;
  }
  bool any = false;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const bool last_hope = !any && i + 1 == candidates.size();
    any = check_one(findings, candidates[i], last_hope) || any;
  }
}

}  // namespace penstock::tools
