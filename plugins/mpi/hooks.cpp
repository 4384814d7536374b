#include "hooks.hpp"

#include "datatypes.hpp"

namespace penstock::mpi {

void after_init() {}

void before_finalize() {
  close_datatypes();
}

}  // namespace penstock::mpi
