// One run of the MPI's own launcher: starts, watches and ends it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "job_watch.hpp"
#include "mpi_environment.hpp"

namespace penstock::tools {

struct JobPlan {
  std::vector<std::string> command;  ///< mpiexec and all its arguments
  Environment environment;           ///< in addition to this process's own
  std::string pool, job;
  std::string exit_log;  ///< a folder, which the ranks find in PENSTOCK_EXIT_LOG
  std::uint32_t ranks = 0;
};

struct JobOutcome {
  int status = 0;                     ///< as shells report it: 128 + signal if killed
  std::optional<int> interrupted_by;  ///< a signal that this process received
  std::optional<JobWatch::Death> first_death;
  std::optional<std::string> unfinalized;  ///< JobWatch::unfinalized()
  JobTotals totals;
};

/// Runs the job to its end. Passes signals on to the launcher; if these do not end the job, kills
/// everything that belongs to it.
Result<JobOutcome> run_job(const JobPlan& plan);

}  // namespace penstock::tools
