// A process as the process table shows it, and the counters that it publishes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::pool {

/// Counters that a process publishes about itself, for `penstock ps` and the job summary. The
/// transport writes them rarely.
struct ProcessStats {
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
};

/// A process as the process table describes it (checked).
struct ProcessRecord : ProcessStats {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;                ///< grows with each claim of the slot
  std::uint32_t node = 0;                      ///< index in the pool's node table
  std::optional<std::uint32_t> emulated_node;  ///< from PENSTOCK_NODE, among those of its host
  std::string host;
  std::string boot_id;
  std::uint32_t scope = 0;  ///< ProcessIdentity::scope
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  ///< of /proc/PID/stat, clock ticks since boot
  std::uint64_t attached_wall_ns = 0;
  std::uint64_t lease_beat = 0;    ///< heartbeat counter
  std::uint64_t device_reads = 0;  ///< lines read from the device until that beat
  std::uint64_t beat_ns = 0;       ///< time of that beat, by the clock of its host
  std::int32_t rank = -1;          ///< of the job, -1 when unknown
  std::string job;                 ///< job key, "" when none
  std::string program;
  bool attached = false;  ///< false: detached in order; the statistics are its last ones
  bool alive = false;
  std::string activity;  ///< "", or its current wait

  std::uint64_t token() const { return generation << 16 | slot; }  ///< as Pool::token()
};

/// "node 3", or "emulated node 1" if several nodes are emulated on one host.
std::string node_text(const ProcessRecord& record);
/// "rank 3 (pid 1234 on host a, node 1)"; the program's name if it has no rank.
std::string describe(const ProcessRecord& record);

/// Activity of a process that needed more of the pool than was free.
inline constexpr std::string_view activity_pool_full = "found the pool full";
/// Activity of a process that only polls for messages. Another attachment of the process may know a
/// more precise one.
inline constexpr std::string_view activity_polling = "polls for messages";

}  // namespace penstock::pool
