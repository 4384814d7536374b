#include "traffic_view.hpp"

#include <fmt/core.h>

#include <map>

#include "base/format.hpp"
#include "facts.hpp"
#include "processes.hpp"
#include "table.hpp"

namespace penstock::tools {
namespace {

std::optional<double> rate_of(const pool::ProcessRecord* before, const pool::ProcessRecord& now) {
  if (before == nullptr || now.beat_ns <= before->beat_ns) return std::nullopt;
  const auto reads = static_cast<double>(now.device_reads - before->device_reads);
  return reads * 1e9 / static_cast<double>(now.beat_ns - before->beat_ns);
}

std::string text_of(const std::optional<double>& rate) {
  return rate ? fmt::format("{:.0f}", *rate) : "-";
}

}  // namespace

std::vector<TrafficRow> traffic_of(const std::vector<pool::ProcessRecord>& before,
                                   const std::vector<pool::ProcessRecord>& after) {
  std::map<std::uint64_t, const pool::ProcessRecord*> earlier;
  for (const auto& record : before) earlier[record.token()] = &record;
  std::map<ProcessKey, std::optional<double>> sums;
  for (const auto& record : after) {
    if (!record.attached) continue;
    const auto found = earlier.find(record.token());
    const auto rate = rate_of(found == earlier.end() ? nullptr : found->second, record);
    const auto [sum, is_new] = sums.emplace(process_key(record), rate);
    if (is_new) continue;
    if (rate && sum->second)
      *sum->second += *rate;
    else
      sum->second.reset();
  }
  std::vector<TrafficRow> rows;
  for (const auto& record : by_process(after))
    if (record.attached) rows.push_back({record, sums[process_key(record)]});
  return rows;
}

std::string traffic_table(const std::vector<TrafficRow>& rows) {
  Table table({{"NODE", Align::right},
               {"HOST"},
               {"PID", Align::right},
               {"RANK", Align::right},
               {"READS/S", Align::right},
               {"DOES"}});
  double all = 0;
  for (const auto& [process, rate] : rows) {
    all += rate.value_or(0);
    table.add({std::to_string(node_of(process)), base::printable(process.host),
               std::to_string(process.pid), process.rank < 0 ? "-" : std::to_string(process.rank),
               text_of(rate), base::printable(process.activity)});
  }
  return table.text() +
         fmt::format("all: {:.0f} lines of 64 bytes a second, {:.2f} MB/s\n", all, all * 64 / 1e6);
}

Json traffic_facts(const std::vector<TrafficRow>& rows) {
  Json facts = Json::array();
  for (const auto& [process, rate] : rows) {
    facts.push_back({{"node", node_of(process)},
                     {"host", process.host},
                     {"pid", process.pid},
                     {"rank", process.rank},
                     {"device_reads_per_second", rate ? Json(*rate) : Json()},
                     {"activity", process.activity}});
  }
  return facts;
}

}  // namespace penstock::tools
