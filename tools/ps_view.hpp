// The output of `penstock ps`: tables for people, facts for programs.
#pragma once

#include <string>
#include <vector>

#include "json.hpp"
#include "pool/pool.hpp"
#include "rates.hpp"
#include "transport/transport.hpp"

namespace penstock::tools {

/// With `meter` also what each process sends and receives in a second.
std::string process_table(const std::string& spec, const std::vector<pool::ProcessRecord>& records,
                          RateMeter* meter);
/// Appends to an array. With `meter` each has "rates": null at the first look.
void add_processes(Json& facts, const std::string& spec,
                   const std::vector<pool::ProcessRecord>& records, RateMeter* meter);

std::string peer_table(const std::vector<transport::PeerCounts>& rows,
                       const std::vector<pool::ProcessRecord>& records);
Json peer_facts(const std::vector<transport::PeerCounts>& rows,
                const std::vector<pool::ProcessRecord>& records);

}  // namespace penstock::tools
