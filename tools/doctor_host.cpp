// Checks the host: instructions, cores, /dev/shm, huge pages, variables.
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "arch/arch.hpp"
#include "base/env.hpp"
#include "base/file.hpp"
#include "base/wait.hpp"
#include "command.hpp"
#include "doctor.hpp"

namespace penstock::tools {

namespace {

/// Penstock's own list lacks instructions that it does not use.
bool cpu_has(const std::string& flag, const Roots& roots) {
  std::istringstream lines(base::read_file(roots.proc + "/cpuinfo"));
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("flags")) return (line + " ").find(" " + flag + " ") != std::string::npos;
  }
  return false;
}

std::string flushes(const arch::Features& has) {
  if (has.dc_civac) return "dc civac";
  const char* const invalidate = has.clflushopt ? "clflushopt" : "clflush";
  return fmt::format("{} and {}", has.clwb ? "clwb" : invalidate, invalidate);
}

}  // namespace

void check_cpu(Findings& findings, const Roots& roots) {
  const arch::Features& has = arch::features();
  std::string names;
  for (const auto& [present, name] : {std::pair{has.clflush, "clflush"},
                                      {has.clflushopt, "clflushopt"},
                                      {has.clwb, "clwb"},
                                      {has.sse2, "sse2"},
                                      {has.avx2, "avx2"},
                                      {has.avx512, "avx512"},
                                      {has.dc_civac, "dc civac"}}) {
    if (present) names += names.empty() ? name : std::string(" ") + name;
  }
  const bool can_flush = has.clflush || has.clflushopt || has.clwb || has.dc_civac;
  if (cpu_has("movdir64b", roots)) names += " movdir64b";
  std::string what = fmt::format("instructions: {} (in use: {}", names.empty() ? "none" : names,
                                 arch::select().name);
  what += can_flush ? fmt::format("; lines leave and are dropped by {})", flushes(has)) : ")";
  if (can_flush) {
    findings.ok(what);
  } else {
    findings.fail(what + ": cache lines cannot be written back, so no pool in software mode",
                  "use --mode hardware on one host");
  }
}

void check_cores(Findings& findings) {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const std::uint32_t usable = base::usable_cpus();
  const std::string what = fmt::format("cores: {} usable of {}", usable, online);
  if (usable >= static_cast<std::uint32_t>(online)) {
    findings.ok(what);
  } else {
    findings.warn(what + " (affinity or cgroup quota): more ranks than that take turns",
                  "taskset, docker run --cpus, or the scheduler's --cpus-per-task");
  }
}

void check_shared_memory(Findings& findings) {
  struct statvfs fs {};
  if (statvfs("/dev/shm", &fs) != 0) {
    findings.fail("/dev/shm is absent: no shm: pools",
                  "sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm");
    return;
  }
  const std::uint64_t total = std::uint64_t{fs.f_blocks} * fs.f_frsize;
  const std::uint64_t free = std::uint64_t{fs.f_bavail} * fs.f_frsize;
  const std::string what = fmt::format("/dev/shm: {} free of {}", about(free), about(total));
  const std::string enlarge = "sudo mount -o remount,size=2G /dev/shm (docker run --shm-size=2g)";
  if (access("/dev/shm", W_OK) != 0) {
    findings.fail(what + ", not writable", "sudo chmod 1777 /dev/shm");
  } else if (free < device::min_pool_bytes) {
    findings.fail(what + ": too small for the smallest pool", enlarge);
  } else if (free < (256ull << 20)) {
    findings.warn(what + ": room for small pools only", enlarge);
  } else {
    findings.ok(what);
  }
}

void check_huge_pages(Findings& findings, const Roots& roots) {
  std::ifstream file(roots.proc + "/meminfo");
  std::string name;
  std::uint64_t value = 0, total = 0, free = 0;
  std::string rest;
  while (file >> name >> value) {
    if (name == "HugePages_Total:") total = value;
    if (name == "HugePages_Free:") free = value;
    std::getline(file, rest);
  }
  findings.ok(total == 0 ? "huge pages: none reserved (not needed)"
                         : fmt::format("huge pages: {} of {} free", free, total));
}

void check_variables(Findings& findings) {
  if (const auto checked = base::check_variables(); !checked)
    findings.fail(checked.error().message, "");
  for (const auto& [name, nearest] : base::unknown_variables()) {
    findings.warn(fmt::format("{} is not a variable of Penstock", name),
                  nearest.empty() ? "penstock env --list shows those there are"
                                  : fmt::format("did you mean {}?", nearest));
  }
}

}  // namespace penstock::tools
