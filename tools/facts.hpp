// The JSON shapes of docs/command-line.md that several commands print.
#pragma once

#include <string>
#include <vector>

#include "arena/arena.hpp"
#include "doctor.hpp"
#include "json.hpp"
#include "pool/pool.hpp"

namespace penstock::tools {

/// "left", "dead", "stopped" or "alive". A stopped process is alive but does nothing; this is
/// visible only for processes of this host.
const char* state_of(const pool::ProcessRecord& record);
/// The node's number as messages give it: emulated nodes by their own number.
std::uint32_t node_of(const pool::ProcessRecord& record);

/// The contents of the superblock: spec, id, bytes, layout, mode, owner, group, permissions,
/// max_ranks, max_processes, max_nodes.
Json pool_facts(const pool::Info& info);
/// Bytes of objects on each part (device) of the pool.
std::vector<std::uint64_t> bytes_by_part(const arena::Arena& arena);
/// One object for each node that space waits for.
Json quarantine_facts(const arena::Quarantine& quarantine);
Json process_facts(const std::string& spec, const pool::ProcessRecord& record);
/// {"verdict", "what", "fix"} for each; fix is null if nothing needs to be done.
Json finding_facts(const Findings& findings);

}  // namespace penstock::tools
