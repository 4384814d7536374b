// Memory of windows and the collective calls of the MPI. Many programs assume, as the unified
// memory model allows, that after a barrier they find earlier puts, and that others get earlier
// stores: so own stores are written back before such a call, and copies are invalidated after it.
// Blocking collective calls only: a program calls them less often than it sends messages, and each
// window pays for all of its ranges that peers reach (docs/decisions/0024).
#pragma once

#include "windows.hpp"

namespace penstock::mpi {

void publish_windows();
void observe_windows();

class AroundCollective {
 public:
  AroundCollective() {
    if (pool_windows.load(std::memory_order_relaxed) != 0) publish_windows();
  }
  ~AroundCollective() {
    if (pool_windows.load(std::memory_order_relaxed) != 0) observe_windows();
  }
  AroundCollective(const AroundCollective&) = delete;
  AroundCollective& operator=(const AroundCollective&) = delete;
};

}  // namespace penstock::mpi
