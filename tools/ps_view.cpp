#include "ps_view.hpp"

#include <fmt/core.h>

#include <optional>
#include <set>

#include "base/format.hpp"
#include "command.hpp"
#include "facts.hpp"
#include "table.hpp"

namespace penstock::tools {
namespace {

/// Whether the values differ: a column in which all are equal is omitted.
bool differ(const std::vector<pool::ProcessRecord>& records,
            std::string pool::ProcessRecord::*field) {
  std::set<std::string> entries;
  for (const auto& record : records) entries.insert(record.*field);
  return entries.size() > 1;
}

Colour colour_of(std::string_view state) {
  if (state == "dead") return Colour::red;
  return state == "stopped" ? Colour::yellow : Colour::plain;
}

void add_rates(std::vector<Entry>& row, const std::optional<Rates>& rates) {
  const auto count = [&](double value) { return rates ? fmt::format("{:.0f}", value) : "-"; };
  const auto bytes = [&](double value) {
    return rates ? about(static_cast<std::uint64_t>(value)) + "/s" : "-";
  };
  const Rates known = rates.value_or(Rates{});
  row.insert(row.end(), {count(known.messages_sent), bytes(known.bytes_sent),
                         count(known.messages_received), bytes(known.bytes_received)});
}

/// "rank 3", or the process id if it has no rank; "gone" if it is no longer attached.
std::string name_of(std::uint64_t token, const std::vector<pool::ProcessRecord>& records) {
  for (const pool::ProcessRecord& r : records) {
    if (token == 0 || r.token() != token) continue;
    return r.rank >= 0 ? fmt::format("rank {}", r.rank) : fmt::format("pid {}", r.pid);
  }
  return "gone";
}

}  // namespace

std::string process_table(const std::string& spec, const std::vector<pool::ProcessRecord>& records,
                          RateMeter* meter) {
  const bool jobs = differ(records, &pool::ProcessRecord::job);
  const bool programs = differ(records, &pool::ProcessRecord::program);
  std::vector<Heading> headings = {{"SLOT", Align::right}, {"NODE", Align::right}, {"HOST"},
                                   {"PID", Align::right},  {"RANK", Align::right}, {"STATE"}};
  if (jobs) headings.push_back({"JOB"});
  if (programs) headings.push_back({"PROGRAM"});
  for (const char* title : {"MSG OUT", "BYTES OUT", "MSG IN", "BYTES IN"})
    headings.push_back({title, Align::right});
  if (meter != nullptr) {
    for (const char* title : {"MSG/S OUT", "RATE OUT", "MSG/S IN", "RATE IN"})
      headings.push_back({title, Align::right});
  }
  headings.insert(headings.end(), {{"SINCE"}, {"DOES"}});
  Table table(std::move(headings));
  for (const pool::ProcessRecord& r : records) {
    const char* state = state_of(r);
    std::vector<Entry> row = {std::to_string(r.slot),
                              std::to_string(node_of(r)),
                              base::printable(r.host),
                              std::to_string(r.pid),
                              r.rank < 0 ? "-" : std::to_string(r.rank),
                              {state, colour_of(state)}};
    if (jobs) row.emplace_back(base::printable(r.job));
    if (programs) row.emplace_back(base::printable(r.program));
    row.insert(row.end(), {std::to_string(r.messages_sent), about(r.bytes_sent),
                           std::to_string(r.messages_received), about(r.bytes_received)});
    if (meter != nullptr) add_rates(row, meter->rates_of(spec, r));
    row.insert(row.end(), {wall_text(r.attached_wall_ns), base::printable(r.activity)});
    table.add(std::move(row));
  }
  return table.text();
}

void add_processes(Json& facts, const std::string& spec,
                   const std::vector<pool::ProcessRecord>& records, RateMeter* meter) {
  for (const pool::ProcessRecord& record : records) {
    Json process = process_facts(spec, record);
    if (meter != nullptr) {
      const auto rates = meter->rates_of(spec, record);
      process["rates"] = nullptr;
      if (rates) {
        process["rates"] = {{"messages_sent", rates->messages_sent},
                            {"bytes_sent", rates->bytes_sent},
                            {"messages_received", rates->messages_received},
                            {"bytes_received", rates->bytes_received}};
      }
    }
    facts.push_back(std::move(process));
  }
}

std::string peer_table(const std::vector<transport::PeerCounts>& rows,
                       const std::vector<pool::ProcessRecord>& records) {
  Table table({{"PROCESS"},
               {"PEER"},
               {"MSG OUT", Align::right},
               {"BYTES OUT", Align::right},
               {"STALLS", Align::right},
               {"MSG IN", Align::right},
               {"BYTES IN", Align::right},
               {"RETRIES", Align::right}});
  for (const transport::PeerCounts& row : rows) {
    table.add({name_of(row.token, records), name_of(row.peer_token, records),
               std::to_string(row.counts.messages_sent), about(row.counts.bytes_sent),
               std::to_string(row.counts.stalls), std::to_string(row.counts.messages_received),
               about(row.counts.bytes_received), std::to_string(row.counts.retries)});
  }
  return table.text();
}

Json peer_facts(const std::vector<transport::PeerCounts>& rows,
                const std::vector<pool::ProcessRecord>& records) {
  Json facts = Json::array();
  for (const transport::PeerCounts& row : rows) {
    facts.push_back({{"endpoint", row.endpoint},
                     {"process", name_of(row.token, records)},
                     {"peer_endpoint", row.peer},
                     {"peer", name_of(row.peer_token, records)},
                     {"messages_sent", row.counts.messages_sent},
                     {"bytes_sent", row.counts.bytes_sent},
                     {"stalls", row.counts.stalls},
                     {"messages_received", row.counts.messages_received},
                     {"bytes_received", row.counts.bytes_received},
                     {"retries", row.counts.retries}});
  }
  return facts;
}

}  // namespace penstock::tools
