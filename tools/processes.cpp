#include "processes.hpp"

#include <algorithm>
#include <map>

namespace penstock::tools {
namespace {

void add(pool::ProcessRecord& to, const pool::ProcessRecord& record) {
  to.messages_sent += record.messages_sent;
  to.bytes_sent += record.bytes_sent;
  to.messages_received += record.messages_received;
  to.bytes_received += record.bytes_received;
  to.attached_wall_ns = std::min(to.attached_wall_ns, record.attached_wall_ns);
  const bool knows_little = to.activity.empty() || to.activity.starts_with(pool::activity_polling);
  if (knows_little && !record.activity.empty()) to.activity = record.activity;
  // A record that was left in order does not show whether the process lives.
  const bool alive = (to.attached && to.alive) || (record.attached && record.alive);
  to.alive = to.attached || record.attached ? alive : to.alive || record.alive;
  to.attached = to.attached || record.attached;
}

}  // namespace

ProcessKey process_key(const pool::ProcessRecord& record) {
  return {record.host, record.boot_id, record.scope, record.pid, record.start_time};
}

std::vector<pool::ProcessRecord> by_process(const std::vector<pool::ProcessRecord>& records) {
  std::vector<pool::ProcessRecord> processes;
  std::map<ProcessKey, std::size_t> places;
  for (const pool::ProcessRecord& record : records) {
    const auto [place, is_new] = places.emplace(process_key(record), processes.size());
    if (is_new) {
      processes.push_back(record);
    } else {
      add(processes[place->second], record);
    }
  }
  return processes;
}

}  // namespace penstock::tools
