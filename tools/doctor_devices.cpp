// Devdax devices and CXL memory: what exists, and whether a pool can be made on it.
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/numa.hpp"
#include "command.hpp"
#include "doctor.hpp"
#include "locations.hpp"

namespace penstock::tools {
namespace {

std::string size_text(const std::optional<std::uint64_t>& bytes) {
  return bytes ? about(*bytes) : "unreadable";
}

std::string use_text(const DaxDevice& device) {
  std::string text = device.pool.empty() ? "no pool on it" : device.pool;
  if (!device.users.empty()) text += fmt::format(", open by {}", fmt::join(device.users, ", "));
  return text;
}

void check_node(Findings& findings, const DaxDevice& device, const std::string& what) {
  if (device.open_error == ENOENT) {
    findings.fail(what + ": the device file is absent",
                  fmt::format("sudo udevadm trigger; ls -l {}", device.path));
  } else if (device.open_error == EACCES || device.open_error == EPERM) {
    findings.fail(
        fmt::format("{}, {}: not readable and writable for you", what, device.owner),
        fmt::format("sudo chgrp $(id -gn) {0} && sudo chmod 0660 {0} (in a container: --device)",
                    device.path));
  } else if (device.open_error != 0) {
    findings.fail(fmt::format("{}: cannot be opened: {}", what, std::strerror(device.open_error)),
                  fmt::format("daxctl list -d {}", device.name));
  } else {
    findings.ok(fmt::format("{}, {}, {}", what, device.owner, use_text(device)));
  }
}

void check_device(Findings& findings, const DaxDevice& device) {
  std::string what = fmt::format("{}: {}, alignment {}", device.path, size_text(device.bytes),
                                 size_text(device.alignment));
  if (device.target_node) what += fmt::format(", NUMA node {}", *device.target_node);
  if (device.driver == "kmem") {
    findings.fail(what + ", in system-ram mode: the kernel uses it as its own memory",
                  fmt::format("sudo daxctl offline-memory {0}; sudo daxctl reconfigure-device "
                              "--mode=devdax --force {0}",
                              device.name));
  } else if (device.driver.empty()) {
    findings.fail(
        what + ", no driver",
        fmt::format("sudo modprobe device_dax; sudo daxctl enable-device {}", device.name));
  } else if (!device.bytes || !device.alignment) {
    findings.fail(what + ": the kernel's files about it are damaged",
                  fmt::format("daxctl list -d {}; dmesg | grep dax", device.name));
  } else if (*device.bytes == 0 || *device.alignment == 0 ||
             *device.bytes % *device.alignment != 0) {
    findings.fail(
        what + ": its size is not a multiple of its alignment",
        fmt::format("sudo daxctl destroy-device -f {}; sudo daxctl create-device", device.name));
  } else {
    check_node(findings, device, what + ", devdax");
  }
}

std::string devdax_command(const CxlMemory& memory, const std::vector<std::string>& decoders) {
  const bool one = decoders.size() == 1;
  std::string by_hand = fmt::format(
      "sudo cxl create-region -m -t ram -d {} -w 1 {}; then, as daxctl list names it: "
      "sudo daxctl reconfigure-device --mode=devdax --force daxN.M",
      one ? decoders.front() : "DECODER", memory.name);
  if (!one) {
    by_hand += fmt::format(" (DECODER: the one of {} that leads to {}; cxl list -MDT)",
                           fmt::join(decoders, ", "), memory.name);
  }
  const std::string script = devdax_script();
  if (script.empty()) return by_hand;
  const std::string& device = memory.serial.empty() ? memory.name : memory.serial;
  return fmt::format("sudo {} up {}; or by hand: {}", shell_quote(script), shell_quote(device),
                     by_hand);
}

void check_memory(Findings& findings, const CxlMemory& memory, const Roots& roots) {
  const std::string what =
      fmt::format("CXL memory {}{}: {} volatile, {} persistent", memory.name,
                  memory.serial.empty() ? "" : ", serial number " + memory.serial,
                  size_text(memory.volatile_bytes), size_text(memory.persistent_bytes));
  if (!memory.region.empty()) return findings.ok(fmt::format("{}, in {}", what, memory.region));
  const auto decoders = volatile_root_decoders(roots);
  if (decoders.empty()) {
    return findings.warn(what + ", in no region, and the firmware gives no window for one",
                         "cxl list -D; CXL memory windows (CFMWS) in the firmware's settings");
  }
  findings.warn(what + ", in no region, so no pool can be made on it",
                devdax_command(memory, decoders));
}

}  // namespace

void check_nearness(Findings& findings, const Roots& roots, const std::vector<int>& usable_cpus) {
  const auto nodes = base::numa_nodes(roots.sys);
  if (nodes.size() < 2) return;
  for (const DaxDevice& device : dax_devices(roots)) {
    if (!device.numa_node || device.driver == "kmem") continue;
    const auto next = std::find_if(nodes.begin(), nodes.end(), [&](const base::NumaNode& node) {
      return node.number == *device.numa_node;
    });
    if (next == nodes.end()) continue;
    const auto is_next = [&](int cpu) {
      return std::find(next->cpus.begin(), next->cpus.end(), cpu) != next->cpus.end();
    };
    const auto near = std::count_if(usable_cpus.begin(), usable_cpus.end(), is_next);
    const std::string what = fmt::format(
        "{} is next to NUMA node {} of {}, which has {}: of the {} that a process "
        "started here may use, {} are on it",
        device.path, next->number, nodes.size(), counted(next->cpus.size(), "CPU"),
        counted(usable_cpus.size(), "CPU"), near);
    const std::string bind = fmt::format(
        "numactl --cpunodebind={0} --localalloc COMMAND; each rank of a job: penstock run -n N -- "
        "numactl --cpunodebind={0} --localalloc PROGRAM",
        next->number);
    if (near == 0)
      findings.warn(what + ", so each access crosses the link between sockets", bind);
    else if (static_cast<std::size_t>(near) < usable_cpus.size())
      findings.ok(what + "; ranks that stay there reach it soonest: " + bind);
    else
      findings.ok(what);
  }
}

void check_devices(Findings& findings, const Roots& roots) {
  const auto devices = dax_devices(roots);
  const auto memories = cxl_memories(roots);
  if (devices.empty() && memories.empty()) {
    findings.ok("devdax devices: none (pools lie in files or in /dev/shm)");
  }
  for (const DaxDevice& device : devices) check_device(findings, device);
  for (const CxlMemory& memory : memories) check_memory(findings, memory, roots);
}

}  // namespace penstock::tools
