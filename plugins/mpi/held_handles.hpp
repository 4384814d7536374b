// Operations and datatypes that calls in progress still use. MPI lets a program free them
// meanwhile; the MPI's free is then deferred until the last of these calls has ended. All functions
// are called within MPI calls of the program.
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
  /// Ends one hold(). True if it was the last and the program has freed the handle: the caller then
  /// frees it in the MPI.
  [[nodiscard]] bool release(Held kind, Handle handle);
  /// Called when the program frees the handle. True if the free is deferred; false if no call holds
  /// the handle, so that the MPI frees it at once.
  bool put_off(Held kind, Handle handle);
  /// True if anything is held. One relaxed load.
  bool any() const { return held_.load(std::memory_order_relaxed) != 0; }

 private:
  struct Uses {
    std::uint32_t number = 0;
    bool freed = false;
  };
  std::mutex mutex_;
  std::array<std::unordered_map<Handle, Uses>, 2> uses_;  ///< indexed by Held
  std::atomic<std::size_t> held_{0};
};

/// The held handles of this process.
HeldHandles& held_handles();

}  // namespace penstock::mpi
