// For pools in sparse files: the space of an object is reserved before it is used, so that a full
// file system is an error and never a SIGBUS. A request that fails leaves the file system as it
// was. Space that no object needs any more goes back on request.
#pragma once

#include <optional>
#include <vector>

#include "base/fork.hpp"
#include "base/unique_fd.hpp"
#include "pool/part.hpp"
#include "pool/superblock.hpp"

namespace penstock::pool {

/// A piece of a file.
struct FileRange {
  int fd = -1;
  std::uint64_t offset = 0, bytes = 0;
};

/// Reserves all of the ranges, or takes no space at all. Errors: no_space.
Result<void> reserve(const std::vector<FileRange>& ranges);
/// Can the file system of `fd` reserve space in a file?
bool can_reserve(int fd);

/// The files under a pool that was made without space for all of it. Used under the pool's lock.
class Growth {
 public:
  /// Takes the descriptors of files that lack space; of a pool that was made sparse those of all
  /// files, because another process may give space back later.
  static Growth of(std::vector<OpenPart>& parts, const Superblock& superblock);

  bool grows() const { return !files_.empty(); }
  /// As Pool::reserve().
  Result<void> reserve(const Info& info, std::uint64_t offset, std::uint64_t bytes) const;
  /// As Pool::give_back().
  std::uint64_t give_back(const Info& info, std::uint64_t offset, std::uint64_t bytes) const;

 private:
  /// One for each part in which some of [offset, offset + bytes) lies.
  std::vector<FileRange> ranges(const Info& info, std::uint64_t offset, std::uint64_t bytes) const;

  std::vector<base::ProcessFd> files_;  ///< by part; invalid: a device
  std::uint64_t data_offset_ = 0;
  bool shrinks_ = false;
};

}  // namespace penstock::pool
