#include "mpi_segments.hpp"

#include <dirent.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "job_processes.hpp"

namespace penstock::tools {
namespace {

constexpr std::string_view shared_memory = "/dev/shm/";
// Segments of MPICH, Intel MPI, and Open MPI's btl/sm, btl/vader and one-sided components.
constexpr std::string_view segment_names[] = {"mpich_",         "Intel_MPI_", "sm_segment.",
                                              "vader_segment.", "osc_rdma.",  "osc_sm."};

bool names_segment(std::string_view name) {
  return std::any_of(std::begin(segment_names), std::end(segment_names),
                     [&](std::string_view known) { return name.starts_with(known); });
}

/// The common part of the names of a job's segments: all but the number of a node or a rank at the
/// end. "" if nothing in it identifies the job.
std::string_view family_of(std::string_view name) {
  const std::string_view family = name.substr(0, name.find_last_of("_.") + 1);
  for (const std::string_view known : segment_names) {
    if (name.starts_with(known)) return family.size() > known.size() ? family : "";
  }
  return "";
}

}  // namespace

std::set<std::string> mpi_segments_of(pid_t pid) {
  std::set<std::string> segments;
  std::istringstream maps(base::read_file(fmt::format("/proc/{}/maps", pid)));
  for (std::string line; std::getline(maps, line);) {
    const auto at = line.find(shared_memory);
    if (at == std::string::npos || line.ends_with(" (deleted)")) continue;
    if (names_segment(std::string_view(line).substr(at + shared_memory.size())))
      segments.insert(line.substr(at));
  }
  return segments;
}

std::set<std::string> mpi_segments() {
  const std::string folder(shared_memory);
  std::set<std::string> segments;
  DIR* list = opendir(folder.c_str());
  if (!list) return segments;
  while (const dirent* entry = readdir(list)) {
    if (names_segment(entry->d_name)) segments.insert(folder + entry->d_name);
  }
  closedir(list);
  return segments;
}

void remove_segments(const std::set<std::string>& segments) {
  // One known name reveals those of all nodes and ranks.
  std::set<std::string, std::less<>> families;
  const auto family_of_path = [](std::string_view path) {
    return family_of(path.substr(shared_memory.size()));
  };
  for (const std::string& segment : segments) {
    unlink(segment.c_str());
    const auto family = family_of_path(segment);
    if (!family.empty()) families.emplace(family);
  }
  if (families.empty()) return;
  for (const std::string& segment : mpi_segments()) {
    if (families.contains(family_of_path(segment))) unlink(segment.c_str());
  }
}

void write_segments(const std::string& folder, const std::set<std::string>& segments) {
  std::ofstream file(folder + "/segments");
  for (const std::string& segment : segments) file << segment << '\n';
}

std::set<std::string> read_segments(const std::string& folder) {
  std::set<std::string> segments;
  std::ifstream file(folder + "/segments");
  for (std::string line; std::getline(file, line);) {
    const bool in_memory = line.starts_with(shared_memory) &&
                           line.find('/', shared_memory.size()) == std::string::npos;
    if (in_memory && names_segment(std::string_view(line).substr(shared_memory.size())))
      segments.insert(line);
  }
  return segments;
}

namespace {

/// Lists the entries of a folder, some of which may be removed meanwhile.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    entries.push_back(entry->path());
  return entries;
}

/// Files that a process has mapped or has open: between open() and mmap() a file is only open.
std::set<std::string> held_by(const std::filesystem::path& process, pid_t pid) {
  std::set<std::string> held;
  std::error_code ignored;
  // Open files first: an MPI closes its segment once it has mapped it.
  for (const auto& open : entries_of(process / "fd")) {
    const std::string file = std::filesystem::read_symlink(open, ignored);
    if (file.starts_with(shared_memory)) held.insert(file);
  }
  held.merge(mpi_segments_of(pid));
  return held;
}

bool is_own(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

}  // namespace

std::set<std::string> abandoned_segments(std::set<std::string> segments, const std::string& job) {
  std::erase_if(segments, [](const std::string& segment) { return !is_own(segment); });
  if (segments.empty()) return segments;
  const auto of_job = processes_of(job);
  for (const auto& process : entries_of("/proc")) {
    const pid_t pid = std::atoi(process.filename().c_str());
    if (pid <= 0 || std::find(of_job.begin(), of_job.end(), pid) != of_job.end()) continue;
    for (const std::string& held : held_by(process, pid)) segments.erase(held);
  }
  return segments;
}

}  // namespace penstock::tools
