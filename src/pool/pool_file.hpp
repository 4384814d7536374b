// Which file of this host an attachment has mapped. The tables of a pool travel with its bytes: the
// copy of a file says of the original's processes that they are attached to it.
#pragma once

#include <cstdint>
#include <vector>

#include "pool/part.hpp"

namespace penstock::pool {

/// Of the devices and inodes of all parts. Two files of a host have the same word in one of a
/// billion cases. Mounts do not count: one file may be reached by several.
std::uint32_t pool_file_of(const std::vector<OpenPart>& parts);

enum class SameFile : std::uint8_t {
  yes,
  no,
  unknown,  ///< one file may have several numbers there
};
/// Of two attachments on one host.
SameFile same_file(std::uint32_t one, std::uint32_t other);

}  // namespace penstock::pool
