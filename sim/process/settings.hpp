// PENSTOCK_SIM_*: how the simulated mode behaves in this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "sim/memory/fault_model.hpp"

namespace penstock::sim {

/// Deliberately left out, so that a test can show that the mode bites.
struct Break {
  enum class Operation { none, invalidate, load_fence, write_back };
  Operation operation = Operation::none;
  std::uint64_t every = 0;
};

struct Settings {
  std::optional<std::uint64_t> seed;
  std::optional<FaultModel> faults;  ///< none: every thread has a temperament of its own
  Break left_out;

  /// The faults of a thread with this seed. Stores leave at `store_fence` at the latest: a process
  /// that waits in its launcher for others must not hold back what it has published for them.
  FaultModel faults_of(std::uint64_t thread_seed) const;
};

/// Errors: invalid_argument, with the variable, what it holds and what it may hold.
Result<Settings> settings_from_environment();
/// "deliver=250,evict=40,..."
std::string faults_text(const FaultModel& faults);

}  // namespace penstock::sim
