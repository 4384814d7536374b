// Queries of a large group of processes about its members.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::pool {

class Pool;

/// True if its slot says attached and it is not alive. Reads a few lines, as Pool::alive().
bool died(const Pool& pool, std::uint64_t token);

/// As Pool::node_of() for each token; adjacent slots take one device access.
std::vector<std::optional<std::uint32_t>> nodes_of(const Pool& pool,
                                                   const std::vector<std::uint64_t>& tokens);

}  // namespace penstock::pool
