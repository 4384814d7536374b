// PENSTOCK_SIM_*: the behaviour of the simulated mode in this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "sim/memory/fault_model.hpp"

namespace penstock::sim {

/// An operation that is deliberately left out, so that a test can show that the mode notices.
struct Break {
  enum class Operation { none, invalidate, load_fence, write_back };
  Operation operation = Operation::none;
  std::uint64_t every = 0;
};

struct Settings {
  std::optional<std::uint64_t> seed;
  std::optional<FaultModel> faults;  ///< nullopt: every thread has a model of its own
  Break left_out;

  /// The faults of a thread with this seed. Stores leave at `store_fence` at the latest: a process
  /// that waits in its launcher for others must not hold back stores that it has published for
  /// them.
  FaultModel faults_of(std::uint64_t thread_seed) const;
};

/// Errors: invalid_argument, which names the variable, its value and the permitted values.
Result<Settings> settings_from_environment();
/// "deliver=250,evict=40,..."
std::string faults_text(const FaultModel& faults);

}  // namespace penstock::sim
