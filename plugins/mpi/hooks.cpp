#include "hooks.hpp"

#include "attachment.hpp"
#include "datatypes.hpp"

namespace penstock::mpi {

void after_init() {
  (void)attachment();
}

void before_finalize() {
  close_datatypes();
  detach();
}

}  // namespace penstock::mpi
