// Devdax devices: what is there, and whether a pool can be made on it.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "command.hpp"
#include "doctor.hpp"
#include "locations.hpp"

namespace penstock::tools {
namespace {

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  DIR* list = opendir(folder.c_str());
  if (!list) return names;
  while (const dirent* entry = readdir(list)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(list);
  std::sort(names.begin(), names.end());
  return names;
}

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  file >> value;
  return value;
}

/// The last part of what the link `driver` points to: device_dax, kmem, or "".
std::string driver_of(const std::string& device) {
  const std::string link = device + "/driver";
  const std::string target = resolved(link);
  return target == link ? "" : target.substr(target.rfind('/') + 1);
}

void check_device(Findings& findings, const std::string& name, const std::string& folder) {
  const std::string device = "/dev/" + name;
  const std::string driver = driver_of(folder);
  const std::uint64_t bytes = number_in(folder + "/size");
  const std::uint64_t alignment = number_in(folder + "/align");
  const std::string what =
      fmt::format("{}: {}, alignment {}", device, about(bytes), about(alignment));
  if (driver == "kmem") {
    findings.fail(what + ", in system-ram mode: the kernel uses it as its own memory",
                  fmt::format("sudo daxctl reconfigure-device --mode=devdax --force {}", name));
  } else if (driver.empty()) {
    findings.fail(what + ", no driver",
                  fmt::format("sudo modprobe device_dax; sudo daxctl enable-device {}", name));
  } else if (alignment == 0 || bytes % alignment != 0) {
    findings.fail(what + ": its size is no multiple of its alignment",
                  fmt::format("sudo daxctl destroy-device -f {}; sudo daxctl create-device", name));
  } else if (access(device.c_str(), F_OK) != 0) {
    findings.fail(what + ": the device file is absent",
                  fmt::format("sudo udevadm trigger; ls -l {}", device));
  } else if (access(device.c_str(), R_OK | W_OK) != 0) {
    findings.fail(what + ": not readable and writable for you",
                  fmt::format("sudo chgrp $(id -gn) {0} && sudo chmod 0660 {0}", device));
  } else {
    findings.ok(what + ", devdax");
  }
}

}  // namespace

void check_devices(Findings& findings, const std::string& sys) {
  const std::string folder = sys + "/bus/dax/devices";
  const auto names = entries_of(folder);
  if (names.empty()) findings.ok("devdax devices: none (pools lie in files or in /dev/shm)");
  for (const std::string& name : names) check_device(findings, name, folder + "/" + name);
}

}  // namespace penstock::tools
