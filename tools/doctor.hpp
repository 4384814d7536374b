// The checks of `penstock doctor`, one file for each concern.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devices.hpp"
#include "mpi_runtime.hpp"

namespace penstock::tools {

enum class Verdict { ok, warn, fail };  // from good to bad
const char* verdict_name(Verdict verdict);

struct Finding {
  Verdict verdict;
  std::string what;
  std::string fix;  ///< a command, or advice; "" if nothing needs to be done
};

class Findings {
 public:
  void ok(std::string what) { all_.push_back({Verdict::ok, std::move(what), ""}); }
  void warn(std::string what, std::string fix) {
    all_.push_back({Verdict::warn, std::move(what), std::move(fix)});
  }
  void fail(std::string what, std::string fix) {
    all_.push_back({Verdict::fail, std::move(what), std::move(fix)});
  }
  const std::vector<Finding>& all() const { return all_; }
  /// Failures first, then warnings.
  Findings sorted() const;
  bool failed() const;

 private:
  std::vector<Finding> all_;
};

/// Prints the findings and returns the exit status: exit_error if any check failed.
int print(const Findings& findings);

void check_cpu(Findings& findings, const Roots& roots);
void check_cores(Findings& findings);
void check_shared_memory(Findings& findings);
void check_huge_pages(Findings& findings, const Roots& roots);
/// Checks whether pools in /dev/shm outlive the login of `user`.
void check_logout(Findings& findings, const Roots& roots, unsigned user);
/// Checks the limits against pool `spec`, if it is in this host's memory; "" for none.
void check_cgroup(Findings& findings, const Roots& roots, const std::string& spec);
void check_variables(Findings& findings);

/// Checks each devdax (size, alignment, NUMA node, driver, permissions, users), and CXL memory
/// without a region.
void check_devices(Findings& findings, const Roots& roots);

/// Checks how near the CPUs that this process may use are to the devices, on hosts with several
/// NUMA nodes.
void check_nearness(Findings& findings, const Roots& roots, const std::vector<int>& usable_cpus);

void check_provider(Findings& findings);
/// Checks what libfabric lists through the provider for a pool; `spec` "": that of PENSTOCK_POOL.
/// Sets variables of libfabric in this process.
void check_offer(Findings& findings, const std::string& spec);
/// The library that is preloaded for windows. Nullopt: it cannot be, and a finding says why.
std::optional<std::string> windows_to_preload(Findings& findings);
void check_windows(Findings& findings);
/// `mpiexec` "": checks all that would be considered.
void check_mpi(Findings& findings, const std::string& mpiexec);
/// Tells which way the messages, windows and collectives of a program go, and the command that runs
/// it over a pool. `command`: the program and its arguments.
void check_program(Findings& findings, const std::vector<std::string>& command,
                   const std::string& mpiexec);

}  // namespace penstock::tools
