// Rates at which processes send and receive, from two looks at their counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "pool/pool.hpp"

namespace penstock::tools {

/// Per second.
struct Rates {
  double messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
};

/// Remembers the counts of the last look at each process, and returns the increase since then.
class RateMeter {
 public:
  /// Call it before the processes of a new look.
  void begin(std::uint64_t now_ns);
  /// Returns nullopt at the first look at a process.
  std::optional<Rates> rates_of(const std::string& spec, const pool::ProcessRecord& record);

 private:
  using Key = std::pair<std::string, std::uint64_t>;  ///< the pool, and the process's token
  std::map<Key, pool::ProcessStats> before_, now_;
  std::uint64_t before_ns_ = 0, now_ns_ = 0;
};

}  // namespace penstock::tools
