// The files that an MPI makes in /dev/shm for one job. It removes them while it starts, or when it
// finalizes; after a crash they would stay for ever.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

namespace penstock::tools {

/// The segments that process `pid` has mapped.
std::set<std::string> mpi_segments_of(pid_t pid);
/// The segments of all jobs. Cheap, unlike reading a process's mappings.
std::set<std::string> mpi_segments();
/// Returns those of `segments` that belong to this user and that no process has open or mapped;
/// processes of `job` do not count. Reads every process that it may read, if there is any segment
/// to check.
std::set<std::string> abandoned_segments(std::set<std::string> segments, const std::string& job);
/// Removes them and, if the names identify the job, the segments of its other nodes and ranks.
void remove_segments(const std::set<std::string>& segments);

/// Records them for the next run, which cleans up if all processes of the job were killed at once.
void write_segments(const std::string& folder, const std::set<std::string>& segments);
std::set<std::string> read_segments(const std::string& folder);

}  // namespace penstock::tools
