// Time-independent traces of ranks, as SimGrid replays them: files of lines "RANK ACTION ...".
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// A folder that is removed with its files at the end.
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

/// Writes a file for each rank and one that lists them, each named NAME-...; returns the list.
/// Errors: permission.
Result<std::string> write_traces(const std::string& folder, const std::vector<std::string>& ranks,
                                 const std::string& name = "rank");

/// Reads traces as `smpirun -trace-ti` leaves them, and changes them so that SimGrid 3.32 can
/// replay them: SimGrid writes waitAny, which it cannot read; instead each rank waits for all its
/// operations at the last waitAny of a series. `list`: the file that lists the traces. Returns the
/// lines of each rank. Errors: not_found, wrong_format.
Result<std::vector<std::string>> read_traces(const std::string& list);

/// A core's work for a message of the given size, in operations: for one whose receive is posted,
/// and for one to itself, which is sent and received at once. Empty: no work, and messages to
/// itself stay messages.
struct CoreWork {
  std::function<double(std::uint64_t)> posting, to_self;
};
/// The trace with that work added: before each posted receive, and in place of messages to itself.
std::string with_core_work(const std::string& trace, const CoreWork& work);

/// Operations that a rank's trace computes.
double flops_of(const std::string& trace);

}  // namespace penstock::tools
