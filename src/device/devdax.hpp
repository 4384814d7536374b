// Geometry of a devdax device, from sysfs.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"

namespace penstock::device {

struct DevdaxGeometry {
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 0;  ///< of mappings: 4 KiB, 2 MiB or 1 GiB
};

/// Geometry of the open device `fd` at `path`. `sysfs`: its mount point; tests pass another one.
Result<DevdaxGeometry> devdax_geometry(const std::string& path, int fd,
                                       const std::string& sysfs = "/sys");
/// Reads <sysfs>/bus/dax/devices/<name>/{size,align}; the device must be in devdax mode.
Result<DevdaxGeometry> devdax_geometry_of(const std::string& name,
                                          const std::string& sysfs = "/sys");
/// The reason why /dev/daxX.Y cannot be opened: it is absent or in system-ram mode.
Error devdax_absent(const std::string& path, const std::string& sysfs = "/sys");

}  // namespace penstock::device
