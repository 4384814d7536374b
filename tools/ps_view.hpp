// What `penstock ps` shows of processes: tables for people, rates between two looks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "json.hpp"
#include "pool/pool.hpp"
#include "transport/transport.hpp"

namespace penstock::tools {

/// Per second.
struct Rates {
  double messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
};

/// Remembers the counts of the last look at each process, and gives what was added since.
class RateMeter {
 public:
  /// Call it before the processes of a new look.
  void begin(std::uint64_t now_ns);
  /// nullopt at the first look at a process.
  std::optional<Rates> rates_of(const std::string& spec, const pool::ProcessRecord& record);

 private:
  using Key = std::pair<std::string, std::uint64_t>;  ///< of a pool, and the process's token
  std::map<Key, pool::ProcessStats> before_, now_;
  std::uint64_t before_ns_ = 0, now_ns_ = 0;
};

/// With `meter` also what each sends and receives in a second.
std::string process_table(const std::string& spec, const std::vector<pool::ProcessRecord>& records,
                          RateMeter* meter);
/// Adds to an array. With `meter` each has "rates": null at the first look.
void add_processes(Json& facts, const std::string& spec,
                   const std::vector<pool::ProcessRecord>& records, RateMeter* meter);

std::string peer_table(const std::vector<transport::PeerCounts>& rows,
                       const std::vector<pool::ProcessRecord>& records);
Json peer_facts(const std::vector<transport::PeerCounts>& rows,
                const std::vector<pool::ProcessRecord>& records);

}  // namespace penstock::tools
