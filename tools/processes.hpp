// Processes, of which the process table may have several records: each library of ours that a
// program loads attaches to the pool.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "pool/pool.hpp"

namespace penstock::tools {

/// Slots that a rank takes: of the provider, and of the library that puts its windows into the
/// pool.
using pool::slots_per_rank;

/// The same for all records of a process, and for no other's.
using ProcessKey = std::tuple<std::string, std::string, std::uint32_t, std::int64_t, std::uint64_t>;
ProcessKey process_key(const pool::ProcessRecord& record);

/// One record a process, in the order of their first ones: counts are added up; the activity is
/// that of any attachment that has one; attached and alive if any of them is.
std::vector<pool::ProcessRecord> by_process(const std::vector<pool::ProcessRecord>& records);

}  // namespace penstock::tools
