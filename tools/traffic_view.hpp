// penstock ps --traffic: what processes read from the device, from two looks at their heartbeats.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "json.hpp"
#include "pool/pool.hpp"

namespace penstock::tools {

struct TrafficRow {
  pool::ProcessRecord process;
  /// nullopt where one of its attachments has not beaten between the looks, or is new.
  std::optional<double> reads_a_second;
};

/// One row an attached process. Each rate is by the clock of the process's own host, from one beat
/// to another: when it was looked at does not matter.
std::vector<TrafficRow> traffic_of(const std::vector<pool::ProcessRecord>& before,
                                   const std::vector<pool::ProcessRecord>& after);
std::string traffic_table(const std::vector<TrafficRow>& rows);
Json traffic_facts(const std::vector<TrafficRow>& rows);

}  // namespace penstock::tools
