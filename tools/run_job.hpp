// One run of the MPI's own launcher: started, watched, ended.
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
  Environment environment;           ///< in addition to our own
  std::string pool, job;
  std::string exit_log;  ///< a folder, which the ranks find in PENSTOCK_EXIT_LOG
  std::uint32_t ranks = 0;
};

struct JobOutcome {
  int status = 0;                     ///< as a shell gives it: 128 + signal when killed
  std::optional<int> interrupted_by;  ///< a signal that we were sent
  std::optional<JobWatch::Death> first_death;
  std::optional<std::string> unfinalized;  ///< JobWatch::unfinalized()
  JobTotals totals;
};

/// Runs the job to its end. Signals sent to this process go on to the launcher; when the job does
/// not end by them, everything that belongs to it is killed.
Result<JobOutcome> run_job(const JobPlan& plan);

}  // namespace penstock::tools
