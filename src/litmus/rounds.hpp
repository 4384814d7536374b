// The rounds of a litmus test between two sides that have met. The tested accesses vary; the sides'
// own messages always take all the steps of software mode.
#pragma once

#include <functional>

#include "base/status.hpp"
#include "coherence/coherence.hpp"
#include "litmus/verdict.hpp"

namespace penstock::litmus {

/// One side, from its own point of view.
struct Side {
  coherence::Memory memory;  ///< of software mode, or of the simulated one
  std::byte* lines = nullptr;
  std::uint32_t self = 0;  ///< 0: the side that came first
  std::uint64_t rounds = 0;
  std::uint64_t timeout_ns = 0;                ///< for each wait on the other side
  std::function<Result<void>()> other_living;  ///< its error: the other side has died
};

/// Runs all rounds; both sides return the same report. Errors: deadline, peer_dead, wrong_format
/// (impossible counts of the other side). Unless it fails, none of this side's stores stay in a
/// cache.
Result<Report> run_rounds(const Side& side);

}  // namespace penstock::litmus
