#include "singleton.hpp"

#include "attachment.hpp"
#include "base/format.hpp"
#include "fallback.hpp"
#include "pmpi.hpp"
#include "session/launcher.hpp"

namespace penstock::mpi {

int check_world(int status) {
  if (status != constants().success || !pool_is_named()) return status;
  const std::int32_t started = plugin::ranks_started(plugin::process_sources());
  int size = 0;
  if (started < 2 || pmpi().Comm_size(constants().comm_world, &size) != status || size != 1)
    return status;
  refuse(
      fmt::format("the launcher has started {} processes, and each is alone in MPI_COMM_WORLD: {} "
                  "({}) is not the launcher's MPI; run the program by its own MPI's mpiexec "
                  "(penstock run --mpi mpich, openmpi or intel, or --mpiexec PATH)",
                  started, library().file, library().version));
  return status;
}

}  // namespace penstock::mpi
