// A pool in a file whose space was not all reserved when it was made: what an object needs is
// reserved before it is used, so that a full file system is an error and never a SIGBUS.
#pragma once

#include "pool/part.hpp"

namespace penstock::pool {

/// Is space missing that could be reserved later? Of pools in one file.
bool has_holes(const std::vector<OpenPart>& parts);
/// Of the file behind `fd`. Errors: no_space. Nothing where the file system cannot reserve.
Result<void> reserve_range(int fd, const Info& info, std::uint64_t offset, std::uint64_t bytes);

}  // namespace penstock::pool
