// In which order the processes of one host leave a pool, told by the kernel.
//
// Each attached process keeps a file of its own open; the kernel closes it in the middle of the
// process's end, before a launcher can see the end and kill the others, and queues the event. So
// the order is right however late it is read, also for those that nobody has looked at before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fork.hpp"
#include "penstock/status.hpp"
#include "pool/unique_fd.hpp"

namespace penstock::pool {

/// The side of an attached process, not of children that it forks. Without PENSTOCK_ROLL, or where
/// that folder cannot be written (another host's), nothing is kept.
class RollEntry {
 public:
  RollEntry() = default;
  RollEntry(std::uint64_t pool_id, std::uint32_t slot, std::uint64_t generation);
  /// It leaves in order: no death to tell of.
  void sign_off();

 private:
  std::string path_;
  base::ProcessFd file_;
};

/// The side that looks on.
class Roll {
 public:
  struct Entry {
    std::uint32_t slot = 0;
    std::uint64_t generation = 0;
  };
  /// Of pool `pool_id`, entries made in `folder` from now on. Errors: the folder is absent, no
  /// inotify left.
  static Result<Roll> watch(const std::string& folder, std::uint64_t pool_id);
  /// Those that ended without signing off since the last call, the first to end first.
  std::vector<Entry> ended();

 private:
  Roll(std::string folder, std::uint64_t pool_id, UniqueFd events)
      : folder_(std::move(folder)), pool_id_(pool_id), events_(std::move(events)) {}
  std::string folder_;
  std::uint64_t pool_id_;
  UniqueFd events_;
};

}  // namespace penstock::pool
