#include "devices.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "base/file.hpp"
#include "base/format.hpp"
#include "base/numa.hpp"
#include "base/unique_fd.hpp"
#include "command.hpp"
#include "locations.hpp"

namespace penstock::tools {
namespace {

/// The text of the file, safe to print.
std::string text_in(const std::string& path) {
  return base::printable(base::read_value(path));
}

/// The last component of a link's target; "" if it is not a link.
std::string link_name(const std::string& link) {
  const std::string target = resolved(link);
  return target == link ? "" : target.substr(target.rfind('/') + 1);
}

std::string owner_text(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  const passwd* user = ::getpwuid(status.st_uid);
  const std::string user_name = user ? user->pw_name : std::to_string(status.st_uid);
  const group* of = ::getgrgid(status.st_gid);
  return fmt::format("{}:{} {:04o}", user_name, of ? of->gr_name : std::to_string(status.st_gid),
                     status.st_mode & 07777);
}

bool has_open(const std::string& process, const std::string& path) {
  for (const std::string& number : base::folder_entries(process + "/fd")) {
    if (resolved(process + "/fd/" + number) == path) return true;
  }
  // A process closes a pool's file once it has mapped it.
  return base::read_file(process + "/maps").find(" " + path + "\n") != std::string::npos;
}

std::vector<std::string> users_of(const std::string& path, const std::string& proc) {
  std::vector<std::string> users;
  for (const std::string& name : base::folder_entries(proc)) {
    const bool process =
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!process || name == std::to_string(::getpid())) continue;
    const std::string folder = proc + "/" + name;
    if (has_open(folder, path)) {
      users.push_back(fmt::format("pid {} ({})", name, text_in(folder + "/comm")));
    }
  }
  return users;
}

int open_error_of(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return fd.get() < 0 ? errno : 0;
}

std::string pool_text(const std::string& path) {
  const auto info = pool::inspect(path);
  if (info) {
    return fmt::format("pool of {} in {} mode", about(info->bytes),
                       coherence::mode_name(info->mode));
  }
  const std::string& why = info.error().message;
  if (info.error().code == ErrorCode::mismatch && why.find("parts") != std::string::npos) {
    return "part of a pool";
  }
  return why.find("is damaged") != std::string::npos ? "damaged pool" : "";
}

/// "endpoint3" and "decoder3.0" carry the number of the same port.
bool belongs_to(const std::string& decoder, const std::string& endpoint) {
  return decoder.starts_with("decoder" + endpoint.substr(std::string("endpoint").size()) + ".");
}

std::string region_of(const std::string& memory, const std::string& folder,
                      const std::vector<std::string>& names) {
  for (const std::string& endpoint : names) {
    if (!endpoint.starts_with("endpoint")) continue;
    if (link_name(folder + "/" + endpoint + "/uport") != memory) continue;
    for (const std::string& decoder : names) {
      if (!belongs_to(decoder, endpoint)) continue;
      const std::string region = text_in(folder + "/" + decoder + "/region");
      if (!region.empty()) return region;
    }
  }
  return "";
}

}  // namespace

std::vector<DaxDevice> dax_devices(const Roots& roots) {
  std::vector<DaxDevice> devices;
  const std::string all = roots.sys + "/bus/dax/devices";
  for (const std::string& name : base::folder_entries(all)) {
    const std::string folder = all + "/" + name;
    DaxDevice device{.name = name, .path = roots.dev + "/" + name};
    device.bytes = base::read_number(folder + "/size");
    device.alignment = base::read_number(folder + "/align");
    device.driver = link_name(folder + "/driver");
    if (const auto node = base::read_number(folder + "/target_node")) {
      device.target_node = static_cast<int>(*node);
    }
    device.numa_node = base::read_numa_node(folder + "/numa_node");
    device.open_error = open_error_of(device.path);
    device.owner = owner_text(device.path);
    device.users = users_of(device.path, roots.proc);
    if (device.open_error == 0) device.pool = pool_text(device.path);
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<CxlMemory> cxl_memories(const Roots& roots) {
  std::vector<CxlMemory> memories;
  const std::string folder = roots.sys + "/bus/cxl/devices";
  const auto names = base::folder_entries(folder);
  for (const std::string& name : names) {
    if (!name.starts_with("mem")) continue;
    memories.push_back({.name = name,
                        .serial = text_in(folder + "/" + name + "/serial"),
                        .volatile_bytes = base::read_number(folder + "/" + name + "/ram/size"),
                        .persistent_bytes = base::read_number(folder + "/" + name + "/pmem/size"),
                        .region = region_of(name, folder, names)});
  }
  return memories;
}

std::vector<std::string> volatile_root_decoders(const Roots& roots) {
  std::vector<std::string> decoders;
  const std::string folder = roots.sys + "/bus/cxl/devices";
  for (const std::string& name : base::folder_entries(folder)) {
    if (name.starts_with("decoder") && is_file(folder + "/" + name + "/create_ram_region")) {
      decoders.push_back(name);
    }
  }
  return decoders;
}

}  // namespace penstock::tools
