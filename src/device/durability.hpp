// Whether the parts of a pool keep their data when hosts are switched off, by the kind of file.
#pragma once

#include <cstdint>
#include <vector>

#include "device/part.hpp"

namespace penstock::device {

/// Which data a pool keeps when its hosts are switched off.
enum class Durability : std::uint32_t {
  none = 0,  ///< no data: the pool lies in memory of a host (shm:, tmpfs)
  file = 1,  ///< data that Device::sync() has written to the file, which the page cache maps
  /// Data that have reached the device (coherence::Memory::full_fence): devdax, a file that the
  /// kernel maps with MAP_SYNC, and in simulated mode the file that stands for a device. They last
  /// as long as the device's own memory; no system call says whether that has a battery.
  device = 2,
};
const char* durability_name(Durability durability);

/// The least durability of all parts.
Durability durability_of(const std::vector<OpenPart>& parts, coherence::Mode mode);

}  // namespace penstock::device
