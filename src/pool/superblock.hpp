// Reading, checking and writing superblocks.
#pragma once

#include <string>
#include <vector>

#include "pool/layout.hpp"
#include "pool/part.hpp"

namespace penstock::pool {

/// The superblock at the beginning of one part, unchecked; nullopt if the part is too short.
Result<std::optional<Superblock>> read_superblock(const OpenPart& part);
/// True if the superblock itself is of this layout and undamaged.
bool is_whole(const Superblock& superblock);
/// Computes the checksum and publishes the superblock, the magic last.
Result<void> write_superblock(const OpenPart& part, const Superblock& contents);
/// Clears the magic, so that the part is no longer a pool.
Result<void> wipe_superblock(const OpenPart& part);

/// The superblock of the pool made of `parts`, in that order. Checks it for consistency with itself
/// and with the parts. Errors: wrong_format, mismatch.
Result<Superblock> check_superblocks(const std::vector<OpenPart>& parts, const std::string& spec);

Info info_of(const Superblock& superblock, const std::string& spec);

}  // namespace penstock::pool
