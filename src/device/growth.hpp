// For pools in sparse files: an object's space is reserved before its first use, so that a full
// file system is an error and never a SIGBUS. A failed request leaves the file system unchanged.
// Space that no object needs is returned on request.
#pragma once

#include <string>
#include <vector>

#include "base/fork.hpp"
#include "base/unique_fd.hpp"
#include "device/part.hpp"
#include "device/superblock.hpp"

namespace penstock::device {

/// A range of a file.
struct FileRange {
  int fd = -1;
  std::uint64_t offset = 0, bytes = 0;
};

/// Reserves all of the ranges or none. Errors: no_space.
Result<void> reserve(const std::vector<FileRange>& ranges);
/// True if the file system of `fd` can reserve space in a file.
bool can_reserve(int fd);

/// The files of a pool that was made without reserving all its space. Used under the pool's lock.
class Growth {
 public:
  /// Takes the descriptors of files that lack space; in a sparse pool of all files, because another
  /// process may return space later.
  static Growth of(std::vector<OpenPart>& parts, const Superblock& superblock,
                   const std::string& spec);

  bool grows() const { return !files_.empty(); }
  /// As Device::reserve().
  Result<void> reserve(std::uint64_t offset, std::uint64_t bytes) const;
  /// As Device::give_back().
  std::uint64_t give_back(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  /// One range for each part that overlaps [offset, offset + bytes).
  std::vector<FileRange> ranges(std::uint64_t offset, std::uint64_t bytes) const;

  std::vector<base::ProcessFd> files_;  ///< by part; invalid: a device
  std::string spec_;
  Striping striping_;
  std::uint64_t data_offset_ = 0;
  bool shrinks_ = false;  ///< returns space too
};

}  // namespace penstock::device
