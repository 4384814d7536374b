// Runs SimGrid: traces of ranks, replayed on a platform.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// Files that are gone with it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The version of the SimGrid on the PATH, "3.32". Errors: not_found, which says how to install it.
Result<std::string> simgrid_version();

/// Writes a file for each rank and one that names them; returns that one. Errors: permission.
Result<std::string> write_traces(const std::string& folder, const std::vector<std::string>& ranks);

/// Traces as `smpirun -trace-ti` leaves them, made such that SimGrid 3.32 replays them: it writes
/// waitAny, which it does not read; all that is under way is waited for where nothing else begins.
/// `list`: the file that names them. Returns the lines of each rank. Errors: not_found.
Result<std::vector<std::string>> read_traces(const std::string& list);

/// Seconds that the traces take. Errors: unavailable, with what SimGrid said.
Result<double> replay(const std::string& folder, const std::string& traces, std::size_t ranks,
                      std::uint32_t nodes, const std::string& platform);

}  // namespace penstock::tools
