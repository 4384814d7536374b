// A small call of GPUs whose data carries its own flags (flagged_units.hpp), run by one launch on
// each rank. A rank writes its payload once into its own block, and the others poll it there. Which
// calls go this way depends only on what all ranks know. Protocol: docs/protocols/flagged-calls.md.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/communicator.hpp"
#include "schedule/problem.hpp"

namespace penstock::coll {

/// More ranks do not fit the arguments of a launch.
inline constexpr std::uint32_t max_flagged_ranks = 48;
/// Payload that one rank reads in a call, each block in whole lines. From there on, the bytes that
/// flags add to each read take as long as the fence and the second read that they save.
inline constexpr std::uint64_t max_flagged_read = 32 << 10;
/// The longest block by default.
inline constexpr std::uint64_t default_flagged_bytes = 16 << 10;

/// Payload of a flagged block (Shape::flagged_bytes) for calls of up to `longest` bytes; 0: none.
std::uint64_t flagged_bytes_for(std::uint32_t ranks, std::uint64_t longest);

/// Whether the call is flagged. `longest`: Options::flagged_bytes. The same on all ranks.
bool is_flagged(const Problem& problem, const Shape& shape, std::uint64_t longest);

/// Steps of an eager schedule, in the order of a launch. In between it reads what others publish
/// (Prepared::reads).
struct FlaggedProgram {
  std::vector<std::uint32_t> keeps;  ///< moves of own data that is published later
  std::vector<std::uint32_t> publishes;
  std::vector<std::uint32_t> moves;  ///< other moves and reductions
};
FlaggedProgram flagged_program_of(const Schedule& schedule);

}  // namespace penstock::coll
