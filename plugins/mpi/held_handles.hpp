// Operations and datatypes that calls in progress still need in the MPI. As MPI has it a program
// may free them meanwhile: the MPI is told after the last of these calls. All in calls of the
// program.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "abi.hpp"

namespace penstock::mpi {

enum class Held : std::uint8_t { op, type };

class HeldHandles {
 public:
  void hold(Held kind, Handle handle);
  /// True if the program has freed it and nothing holds it any more: the caller frees it.
  [[nodiscard]] bool let_go(Held kind, Handle handle);
  /// The program frees it. False: nothing holds it, and the MPI frees it at once.
  bool put_off(Held kind, Handle handle);
  /// Cheap: whether anything is held.
  bool any() const { return held_.load(std::memory_order_relaxed) != 0; }

 private:
  struct Uses {
    std::uint32_t number = 0;
    bool freed = false;
  };
  std::mutex mutex_;
  std::array<std::unordered_map<Handle, Uses>, 2> uses_;  ///< by kind
  std::atomic<std::size_t> held_{0};
};

/// Those of this process.
HeldHandles& held_handles();

}  // namespace penstock::mpi
