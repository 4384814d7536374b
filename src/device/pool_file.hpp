// Identifies the file that an attachment has mapped. A copy of a pool's file includes its tables,
// in which the original's processes seem to be attached to the copy.
#pragma once

#include <cstdint>
#include <vector>

#include "device/part.hpp"

namespace penstock::device {

/// A hash of the devices and inodes of all parts. Two files of a host collide with a probability of
/// one in a billion. Mounts are not included: several may lead to one file.
std::uint32_t pool_file_of(const std::vector<OpenPart>& parts);

enum class SameFile : std::uint8_t {
  yes,
  no,
  unknown,  ///< one file may have several numbers
};
/// Compares the words of two attachments on one host.
SameFile same_file(std::uint32_t one, std::uint32_t other);

}  // namespace penstock::device
