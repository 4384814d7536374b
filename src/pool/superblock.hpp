// Reading, checking and writing superblocks.
#pragma once

#include <string>
#include <vector>

#include "pool/layout.hpp"
#include "pool/part.hpp"

namespace penstock::pool {

/// The superblock at the beginning of one part, unchecked; nullopt when the part is too short.
Result<std::optional<Superblock>> read_superblock(const OpenPart& part);
/// True if the superblock itself is of this layout and undamaged.
bool is_whole(const Superblock& superblock);
/// Publishes it, with its checksum computed here; its magic comes last.
Result<void> write_superblock(const OpenPart& part, const Superblock& contents);
/// Makes the part no pool any more.
Result<void> wipe_superblock(const OpenPart& part);

/// The superblock of the pool made of `parts`, in that order. Checks everything that is recorded
/// against itself and against the parts. Errors: wrong_format, mismatch.
Result<Superblock> check_superblocks(const std::vector<OpenPart>& parts, const std::string& spec);

Info info_of(const Superblock& superblock, const std::string& spec);

}  // namespace penstock::pool
