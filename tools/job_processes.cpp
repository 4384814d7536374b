#include "job_processes.hpp"

#include <dirent.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/file.hpp"

namespace penstock::tools {
namespace {

bool belongs_to(pid_t pid, const std::string& entry) {
  const std::string environment = base::read_file(fmt::format("/proc/{}/environ", pid));
  if (environment.compare(0, entry.size(), entry) == 0) return true;
  return environment.find(std::string(1, '\0') + entry) != std::string::npos;
}

/// The fields of /proc/PID/stat after the program's name (the first is the state); "" if the
/// process is gone.
std::string stat_fields(pid_t pid) {
  const std::string text = base::read_file(fmt::format("/proc/{}/stat", pid));
  const auto name_end = text.rfind(") ");
  return name_end == std::string::npos ? "" : text.substr(name_end + 2);
}

}  // namespace

void Descriptor::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Descriptor open_process(pid_t pid) {
  return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0u)));
}

namespace {

struct Process {
  pid_t pid;
  Descriptor descriptor;
};

std::vector<Process> open_processes_of(const std::string& job) {
  const std::string entry = "PENSTOCK_JOB=" + job + std::string(1, '\0');
  std::vector<Process> found;
  DIR* processes = opendir("/proc");
  if (!processes) return found;
  while (const dirent* item = readdir(processes)) {
    const pid_t pid = static_cast<pid_t>(std::atol(item->d_name));
    if (pid <= 0 || pid == getpid()) continue;
    // Opened first: all that is read afterwards belongs to this process, or to none.
    Descriptor process = open_process(pid);
    if (!process.valid() || !belongs_to(pid, entry)) continue;
    if (!stat_fields(pid).starts_with("Z")) found.push_back({pid, std::move(process)});
  }
  closedir(processes);
  return found;
}

}  // namespace

std::uint32_t signal_job(const std::string& job, int signal) {
  const auto found = open_processes_of(job);
  for (const Process& process : found) {
    if (signal != 0) syscall(SYS_pidfd_send_signal, process.descriptor.get(), signal, nullptr, 0u);
  }
  return static_cast<std::uint32_t>(found.size());
}

std::vector<pid_t> processes_of(const std::string& job) {
  std::vector<pid_t> pids;
  for (const Process& process : open_processes_of(job)) pids.push_back(process.pid);
  return pids;
}

namespace {

/// The exit status of a process that no one has waited for yet. The kernel stores it before it
/// closes the process's files.
std::optional<int> status_in_proc(pid_t pid) {
  constexpr int exit_code_field = 52, state_field = 3;  // as numbered in proc(5)
  std::istringstream fields(stat_fields(pid));
  std::string field, state;
  fields >> state;
  for (int i = state_field; i < exit_code_field; ++i) fields >> field;
  if (!fields) return std::nullopt;
  const int status = std::atoi(field.c_str());
  if (status == 0 && state != "Z" && state != "X") return std::nullopt;
  return status;
}

// PIDFD_GET_INFO of linux/pidfd.h, which older headers lack.
struct PidfdInfo {
  std::uint64_t mask, cgroup;
  std::uint32_t pid, tgid, ppid, ids[8];
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t pidfd_info_exit = 1 << 3;

}  // namespace

std::optional<int> status_of_ended(pid_t pid, const Descriptor& process) {
  // Its number may belong to another process by now; its descriptor does not.
  pollfd ended{process.get(), POLLIN, 0};
  const bool has_ended = poll(&ended, 1, 0) == 1;
  if (syscall(SYS_pidfd_send_signal, process.get(), 0, nullptr, 0u) == 0) {
    if (const auto status = status_in_proc(pid)) return status;
  }
  PidfdInfo info{};
  info.mask = pidfd_info_exit;
  const unsigned long request = _IOWR(0xFF, 11, PidfdInfo);
  if (has_ended && ioctl(process.get(), request, &info) == 0 && (info.mask & pidfd_info_exit) != 0)
    return info.exit_code;
  return std::nullopt;
}

std::string verdict_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    // An MPI's own shared memory is not ours to check before it is written.
    const char* const where = signal == SIGBUS ? ", as where /dev/shm is full (df /dev/shm)" : "";
    return fmt::format("was killed by signal {} ({}){}", signal, strsignal(signal), where);
  }
  return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
}

}  // namespace penstock::tools
