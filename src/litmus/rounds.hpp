// The rounds of a litmus test between two sides that have met. What is tested varies; what the
// sides tell each other always takes the whole discipline of software mode.
#pragma once

#include <functional>

#include "base/status.hpp"
#include "coherence/coherence.hpp"
#include "litmus/verdict.hpp"

namespace penstock::litmus {

/// One side, as itself.
struct Side {
  coherence::Memory memory;  ///< of software mode, or of the simulated one
  std::byte* lines = nullptr;
  std::uint32_t self = 0;  ///< 0 came first
  std::uint64_t rounds = 0;
  std::uint64_t timeout_ns = 0;                ///< of each wait for the other
  std::function<Result<void>()> other_living;  ///< error: the side that died
};

/// Both sides give the same report. Errors: deadline, peer_dead, wrong_format (counts of the other
/// side that cannot be). Nothing that this side stored is left in a cache unless it fails.
Result<Report> run_rounds(const Side& side);

}  // namespace penstock::litmus
