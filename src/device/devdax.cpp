#include "device/devdax.hpp"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string_view>

#include "base/format.hpp"

namespace penstock::device {

namespace {

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::optional<std::string> link_base_name(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  if (length <= 0 || length == sizeof target) return std::nullopt;
  return base_name(std::string(target, static_cast<std::size_t>(length)));
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

std::string device_folder(const std::string& name, const std::string& sysfs) {
  return sysfs + "/bus/dax/devices/" + name;
}

bool in_system_ram_mode(const std::string& name, const std::string& sysfs) {
  return link_base_name(device_folder(name, sysfs) + "/driver").value_or("") == "kmem";
}

std::string reconfigure_command(const std::string& name) {
  return fmt::format("daxctl reconfigure-device --mode=devdax --force {}", name);
}

}  // namespace

Result<DevdaxGeometry> devdax_geometry_of(const std::string& name, const std::string& sysfs) {
  if (in_system_ram_mode(name, sysfs)) {
    return fail(ErrorCode::mismatch, "{} is in system-ram mode, a pool needs devdax mode; run: {}",
                name, reconfigure_command(name));
  }
  const std::string folder = device_folder(name, sysfs);
  const auto bytes = read_number(folder + "/size");
  if (!bytes || *bytes == 0) {
    return fail(ErrorCode::not_found, "no size of dax device {} in {}/size; see: daxctl list", name,
                folder);
  }
  // kernels before 5.10 do not report the alignment; 2 MiB was the default
  const std::uint64_t alignment = read_number(folder + "/align").value_or(2ull << 20);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > (1ull << 30)) {
    return fail(ErrorCode::wrong_format,
                "dax device {} has alignment {}, needed is a power of two up "
                "to 1 GiB; run: daxctl reconfigure-device --mode=devdax --align=2M --force {}",
                name, alignment, name);
  }
  return DevdaxGeometry{.bytes = *bytes, .alignment = alignment};
}

Result<DevdaxGeometry> devdax_geometry(const std::string& path, int fd, const std::string& sysfs) {
  struct stat status;
  if (::fstat(fd, &status) != 0 || !S_ISCHR(status.st_mode)) {
    return fail(ErrorCode::wrong_format,
                "{} is not a character device, so no devdax; see: daxctl list", path);
  }
  const auto linked = link_base_name(
      fmt::format("{}/dev/char/{}:{}", sysfs, major(status.st_rdev), minor(status.st_rdev)));
  const std::string name = linked.value_or(base_name(path));
  if (!name.starts_with("dax")) {
    return fail(ErrorCode::wrong_format,
                "{} is the character device \"{}\", not a devdax; see: daxctl list", path, name);
  }
  return devdax_geometry_of(name, sysfs);
}

Error devdax_absent(const std::string& path, const std::string& sysfs) {
  const std::string name = base_name(path);
  if (in_system_ram_mode(name, sysfs)) {
    return Error{ErrorCode::mismatch,
                 fmt::format("{} is absent because {} is in system-ram mode; run: {}", path, name,
                             reconfigure_command(name))};
  }
  struct stat status;
  if (::stat(device_folder(name, sysfs).c_str(), &status) == 0) {
    return Error{ErrorCode::not_found,
                 fmt::format("{} is absent though the kernel has {}, which is not in devdax mode; "
                             "run: {}",
                             path, name, reconfigure_command(name))};
  }
  return Error{ErrorCode::not_found,
               fmt::format("there is no device {}; those that exist: penstock doctor", path)};
}

}  // namespace penstock::device
