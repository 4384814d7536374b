// Two processes meet in a pool and test its memory. Source: docs/memory-model.md, "Modes";
// docs/protocols/litmus.md.
#pragma once

#include <functional>
#include <string>

#include "arena/arena.hpp"
#include "litmus/verdict.hpp"

namespace penstock::litmus {

inline constexpr std::uint64_t max_rounds = 1'000'000;

struct Outcome {
  Report report;
  std::uint32_t self = 0;  ///< 0: this side came first
  pool::ProcessRecord who[2];
  bool same_host = false;  ///< of the operating system: emulated nodes share one too
  bool same_node = false;
};

struct Options {
  std::uint64_t rounds = 1000;    ///< of each trial in each direction; those of the first side
                                  ///< count
  std::uint64_t timeout_ns = 0;   ///< for the other side to come, and for each wait; 0: the default
  std::function<void()> alone{};  ///< called when this side came first
  std::function<void(const Outcome&)>
      started{};  ///< called when both sides are there, before counting begins
};

/// Runs a litmus test with the other process that calls this on the pool. The first process makes
/// an object, which is destroyed when the test ends or its maker dies. Errors: deadline (no other
/// process came, or it stopped answering), peer_dead (names it), unavailable (two processes already
/// run a test), and those of the arena.
Result<Outcome> run(arena::Arena& arena, const Options& options);

}  // namespace penstock::litmus
