#include "scaling_run.hpp"

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/format.hpp"
#include "locations.hpp"

namespace penstock::tools {

namespace {

namespace fs = std::filesystem;

/// Standard output and error of a shell's line.
std::string output_of(const std::string& line, int* status) {
  std::string text;
  std::FILE* const pipe = ::popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) {
    *status = -1;
    return "cannot start a shell";
  }
  char part[4096];
  for (std::size_t got; (got = std::fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, got);
  *status = ::pclose(pipe);
  return text;
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (file) return {};
  return fail(ErrorCode::permission, "cannot write {}: make room, or set TMPDIR to another folder",
              path);
}

/// One rank's lines without waitAny.
std::string repaired(std::istream& file) {
  std::string out, rank;
  std::int64_t begun = 0, open = 0;
  bool any = false;
  const auto wait_for_all = [&] {
    if (any && begun > 0) out += rank + " waitall " + std::to_string(begun) + "\n";
    begun = open = 0;
    any = false;
  };
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    words >> rank >> what;
    if (what == "waitAny" || what == "waitany") {
      any = true;
      if (--open == 0) wait_for_all();
      continue;
    }
    const bool begins = what == "irecv" || what == "isend";
    if (begins) ++begun, ++open;
    if (what == "wait") --begun, --open;
    if (what == "waitall") begun = open = 0;
    if (what == "finalize") wait_for_all();
    out += line + "\n";
  }
  return out;
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "penstock-scaling-XXXXXX").string();
  if (const char* made = ::mkdtemp(name.data()); made != nullptr) path_ = made;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<std::string> simgrid_version() {
  const std::string smpirun = find_on_path("smpirun");
  if (smpirun.empty())
    return fail(
        ErrorCode::not_found,
        "no smpirun is on the PATH, and the study of scaling is SimGrid's: apt install "
        "libsimgrid-dev, or ci/install.sh scaling; 'penstock model collectives' needs none");
  int status = 0;
  const std::string said = output_of(base::shell_quote(smpirun) + " -version", &status);
  const std::size_t at = said.find("version ");
  std::string version = at == std::string::npos ? "" : said.substr(at + 8);
  version = version.substr(0, version.find_first_not_of("0123456789."));
  return version.empty() ? "of unknown version" : version;
}

Result<std::string> write_traces(const std::string& folder, const std::vector<std::string>& ranks) {
  if (folder.empty())
    return fail(ErrorCode::permission,
                "no temporary folder can be made: set TMPDIR to one of yours");
  std::string names;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string path = fmt::format("{}/rank-{}.txt", folder, rank);
    PENSTOCK_TRY(write_file(path, ranks[rank]));
    names += path + "\n";
  }
  PENSTOCK_TRY(write_file(folder + "/traces", names));
  return folder + "/traces";
}

Result<std::vector<std::string>> read_traces(const std::string& list) {
  std::ifstream names(list);
  std::vector<std::string> ranks;
  for (std::string name; std::getline(names, name);) {
    if (name.empty()) continue;
    const fs::path path =
        fs::path(name).is_absolute() ? fs::path(name) : fs::path(list).parent_path() / name;
    std::ifstream file(path);
    if (!file)
      return fail(ErrorCode::not_found, "{} names {}, which cannot be read", list, path.string());
    ranks.push_back(repaired(file));
  }
  if (!ranks.empty()) return ranks;
  return fail(ErrorCode::not_found,
              "{} names no traces: it is the file that smpirun -trace-ti -trace-file {} leaves",
              list, base::shell_quote(list));
}

Result<double> replay(const std::string& folder, const std::string& traces, std::size_t ranks,
                      std::uint32_t nodes, const std::string& platform) {
  std::string hosts;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    hosts += fmt::format("n{}\n", rank * nodes / ranks);
  PENSTOCK_TRY(write_file(folder + "/hosts", hosts));
  PENSTOCK_TRY(write_file(folder + "/platform.xml", platform));
  int status = 0;
  const std::string said =
      output_of(fmt::format("smpirun -np {} -platform {} -hostfile {} -replay {}", ranks,
                            base::shell_quote(folder + "/platform.xml"),
                            base::shell_quote(folder + "/hosts"), base::shell_quote(traces)),
                &status);
  const std::string before = "Simulation time ";
  const std::size_t at = said.find(before);
  if (status == 0 && at != std::string::npos)
    return std::strtod(said.c_str() + at + before.size(), nullptr);
  return fail(ErrorCode::unavailable, "SimGrid has not replayed {}: {}", traces,
              base::printable(said.substr(said.size() > 600 ? said.size() - 600 : 0)));
}

}  // namespace penstock::tools
