// Which file of this host an attachment has mapped. A pool's tables are copied with its bytes: in a
// copy of its file the original's processes seem attached to the copy.
#pragma once

#include <cstdint>
#include <vector>

#include "pool/part.hpp"

namespace penstock::pool {

/// A hash of the devices and inodes of all parts. Two files of a host have the same word in one of
/// a billion cases. Mounts are left out: several may lead to one file.
std::uint32_t pool_file_of(const std::vector<OpenPart>& parts);

enum class SameFile : std::uint8_t {
  yes,
  no,
  unknown,  ///< one file may have several numbers there
};
/// Compares the words of two attachments on one host.
SameFile same_file(std::uint32_t one, std::uint32_t other);

}  // namespace penstock::pool
