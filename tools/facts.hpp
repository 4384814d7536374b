// The JSON shapes of docs/command-line.md that more than one command prints.
#pragma once

#include <string>
#include <vector>

#include "arena/arena.hpp"
#include "doctor.hpp"
#include "json.hpp"
#include "pool/pool.hpp"

namespace penstock::tools {

/// "left", "dead", "stopped" or "alive". A stopped process is alive: it only does nothing. Seen for
/// those of this host.
const char* state_of(const pool::ProcessRecord& record);
/// In the form of every message: emulated nodes by their own number.
std::uint32_t node_of(const pool::ProcessRecord& record);

/// What the superblock says: spec, id, bytes, layout, mode, owner, group, permissions,
/// max_processes, max_nodes.
Json pool_facts(const pool::Info& info);
/// Bytes of objects on each part (device) of the pool.
std::vector<std::uint64_t> bytes_by_part(const arena::Arena& arena);
/// One object for each node that is waited for.
Json quarantine_facts(const arena::Quarantine& quarantine);
Json process_facts(const std::string& spec, const pool::ProcessRecord& record);
/// {"verdict", "what", "fix"} for each; fix is null where nothing is to be done.
Json finding_facts(const Findings& findings);

}  // namespace penstock::tools
