// Devdax devices and CXL memory as sysfs describes them, without judgement. Why not by libdaxctl
// and libcxl: docs/decisions/0021-devices-by-sysfs.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::tools {

/// The folders of the kernel's files; replaced in tests.
struct Roots {
  std::string sys = "/sys", proc = "/proc", dev = "/dev";
  std::string system;  ///< before /etc, /run and /usr
};

struct DaxDevice {
  std::string name, path;  ///< "dax0.0", "/dev/dax0.0"
  std::optional<std::uint64_t> bytes, alignment;
  std::string driver;  ///< "device_dax", "kmem" (system-ram), "" when none is bound
  std::optional<int> target_node;
  std::optional<int> numa_node;    ///< of the CPUs next to it
  int open_error = 0;              ///< errno of opening it to read and write, 0 when that works
  std::string owner;               ///< "root:root 0600"
  std::vector<std::string> users;  ///< "pid 12 (python)" of those that this user can look into
  std::string pool;                ///< what a Penstock pool on it is, "" when there is none
};
std::vector<DaxDevice> dax_devices(const Roots& roots);

struct CxlMemory {
  std::string name;    ///< "mem0": as they were found, may change with each boot
  std::string serial;  ///< "0x1234", "" when unreadable
  std::optional<std::uint64_t> volatile_bytes, persistent_bytes;
  std::string region;  ///< that it belongs to, "" when none
};
std::vector<CxlMemory> cxl_memories(const Roots& roots);
/// Root decoders that a volatile region can be made below: "decoder0.0".
std::vector<std::string> volatile_root_decoders(const Roots& roots);

}  // namespace penstock::tools
