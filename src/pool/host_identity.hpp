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
  Uuid machine_id{};  ///< zero if the host has none
};

/// The numbers of a process depend on where they are read: pids on the pid namespace, start times
/// on the reader's time namespace, and both on the mounted /proc.
struct ProcessIdentity {
  std::uint64_t pid = 0;
  std::uint64_t start_time = 0;
  /// A hash of these three. Processes of one host with the same scope may ask the kernel about each
  /// other.
  std::uint32_t scope = 0;
  std::uint32_t pool_file = 0;  ///< pool_file_of() the pool that it attaches to
  std::string program;
};

/// Errors: unavailable (/proc cannot be read).
Result<HostIdentity> this_host();
Result<ProcessIdentity> this_process();

/// True if the /proc with this /proc/self/status belongs to the process's own pid namespace. In
/// another /proc the process has another number, and its own number may belong to another process.
bool shows_own_pid_namespace(std::string_view status);

/// Reads /proc/PID/stat; nullopt if it is unreadable.
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
