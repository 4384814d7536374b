// Devdax devices and CXL memory as sysfs describes them, without judgement. Why it does not use
// libdaxctl and libcxl: docs/decisions/0021-devices-by-sysfs.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::tools {

/// The folders of the kernel's files; tests replace them.
struct Roots {
  std::string sys = "/sys", proc = "/proc", dev = "/dev";
  std::string system;  ///< prefix of /etc, /run and /usr
};

struct DaxDevice {
  std::string name, path;  ///< "dax0.0", "/dev/dax0.0"
  std::optional<std::uint64_t> bytes, alignment;
  std::string driver;  ///< "device_dax", "kmem" (system-ram); "" if none is bound
  std::optional<int> target_node;
  std::optional<int> numa_node;    ///< the node of the CPUs next to it
  int open_error = 0;              ///< errno of opening it for reading and writing; 0 if that works
  std::string owner;               ///< "root:root 0600"
  std::vector<std::string> users;  ///< "pid 12 (python)", of processes that this user may inspect
  std::string pool;                ///< describes the Penstock pool on it; "" if there is none
};
std::vector<DaxDevice> dax_devices(const Roots& roots);

struct CxlMemory {
  std::string name;    ///< "mem0": numbered as found, may change with each boot
  std::string serial;  ///< "0x1234"; "" if unreadable
  std::optional<std::uint64_t> volatile_bytes, persistent_bytes;
  std::string region;  ///< the region that it belongs to; "" if none
};
std::vector<CxlMemory> cxl_memories(const Roots& roots);
/// Root decoders below which a volatile region can be made: "decoder0.0".
std::vector<std::string> volatile_root_decoders(const Roots& roots);

}  // namespace penstock::tools
