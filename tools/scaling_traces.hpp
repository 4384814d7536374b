// Traces of ranks, time-independent, as SimGrid replays them: files of lines "RANK ACTION ...".
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

/// Errors: permission.
Result<void> write_file(const std::string& path, const std::string& text);

/// Writes a file for each rank and one that names them, each NAME-...; returns that one. Errors:
/// permission.
Result<std::string> write_traces(const std::string& folder, const std::vector<std::string>& ranks,
                                 const std::string& name = "rank");

/// Traces as `smpirun -trace-ti` leaves them, made such that SimGrid 3.32 replays them: it writes
/// waitAny, which it does not read; all that is under way is waited for where nothing else begins.
/// `list`: the file that names them. Returns the lines of each rank. Errors: not_found,
/// wrong_format.
Result<std::vector<std::string>> read_traces(const std::string& list);

/// The same with so many operations computed before each receive that is posted.
std::string with_posting(const std::string& trace, double flops);

/// Operations that a rank's trace computes.
double flops_of(const std::string& trace);

}  // namespace penstock::tools
