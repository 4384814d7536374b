// The identity of this process: the host, and the process on it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pool/layout.hpp"

namespace penstock::pool {

struct HostIdentity {
  std::string host;
  Uuid boot_id{};
  Uuid machine_id{};  ///< zero when the host has none
};

struct ProcessIdentity {
  std::uint64_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;
  std::string program;
};

/// Error: /proc cannot be read.
Result<HostIdentity> this_host();
Result<ProcessIdentity> this_process();

/// Reads /proc/PID/stat; nullopt when it cannot be read.
struct ProcStat {
  char state = '?';
  std::uint64_t threads = 1;
  std::uint64_t start_time = 0;
};
std::optional<ProcStat> read_proc_stat(std::uint64_t pid);
std::optional<ProcStat> parse_proc_stat(std::string_view text);

/// 36 characters with dashes.
std::string format_uuid(const Uuid& uuid);
/// 32 hexadecimal digits, dashes anywhere.
std::optional<Uuid> parse_uuid(std::string_view text);

}  // namespace penstock::pool
