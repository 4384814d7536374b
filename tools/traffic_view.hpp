// penstock ps --traffic: device reads of processes, computed from two looks at their heartbeats.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "json.hpp"
#include "pool/pool.hpp"

namespace penstock::tools {

struct TrafficRow {
  pool::ProcessRecord process;
  /// Nullopt if one of its attachments has not beaten between the looks, or is new.
  std::optional<double> reads_a_second;
};

/// One row for each attached process. Each rate uses the clock of the process's own host, from one
/// heartbeat to another: the time of the looks does not matter.
std::vector<TrafficRow> traffic_of(const std::vector<pool::ProcessRecord>& before,
                                   const std::vector<pool::ProcessRecord>& after);
std::string traffic_table(const std::vector<TrafficRow>& rows);
Json traffic_facts(const std::vector<TrafficRow>& rows);

}  // namespace penstock::tools
