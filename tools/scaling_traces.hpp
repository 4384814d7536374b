// Traces of ranks, time-independent, as SimGrid replays them: files of lines "RANK ACTION ...".
#pragma once

#include <cstdint>
#include <functional>
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

/// What a rank's core does for messages of so many bytes, in operations: for one whose receive is
/// posted, and for one to itself, which is sent and received at once. Empty: nothing, and messages
/// to itself stay messages.
struct CoreWork {
  std::function<double(std::uint64_t)> posting, to_self;
};
/// The same trace with that computed: before each receive that is posted, and in place of a
/// message to itself.
std::string with_core_work(const std::string& trace, const CoreWork& work);

/// Operations that a rank's trace computes.
double flops_of(const std::string& trace);

}  // namespace penstock::tools
