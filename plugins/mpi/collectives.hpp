// Synchronizes windows at the MPI's collective calls. Many programs assume, as the unified memory
// model allows, that after a barrier they see earlier puts and that peers see earlier stores. So
// before such a call this rank's stores are written back, and after it cached copies are
// invalidated. This covers blocking collective calls only: programs make them less often than they
// send messages, and each window pays for all of its ranges that peers reach (docs/decisions/0024).
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
