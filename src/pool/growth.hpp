// For pools in sparse files: the space of an object is reserved before it is used, so that a full
// file system is an error and never a SIGBUS.
#pragma once

#include "pool/part.hpp"

namespace penstock::pool {

/// Does the pool, of one file, lack space that could be reserved later?
bool has_holes(const std::vector<OpenPart>& parts);
/// Reserves space in the file `fd`; no-op where the file system cannot. Errors: no_space.
Result<void> reserve_range(int fd, const Info& info, std::uint64_t offset, std::uint64_t bytes);

}  // namespace penstock::pool
