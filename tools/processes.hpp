// Processes; the process table may have several records of each, because every Penstock library
// that a program loads attaches to the pool.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "pool/pool.hpp"

namespace penstock::tools {

/// Slots that a rank takes: one for the provider, and one for the library that puts its windows
/// into the pool.
using pool::slots_per_rank;

/// Equal for all records of a process, and different for other processes.
using ProcessKey = std::tuple<std::string, std::string, std::uint32_t, std::int64_t, std::uint64_t>;
ProcessKey process_key(const pool::ProcessRecord& record);

/// One record for each process, in the order of their first records: counts are added up; the
/// activity is that of any attachment that has one; attached and alive if any of them is.
std::vector<pool::ProcessRecord> by_process(const std::vector<pool::ProcessRecord>& records);

}  // namespace penstock::tools
