#include "job_processes.hpp"

#include <dirent.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace penstock::tools {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool belongs_to(pid_t pid, const std::string& entry) {
  const std::string environment = read_file(fmt::format("/proc/{}/environ", pid));
  if (environment.compare(0, entry.size(), entry) == 0) return true;
  return environment.find(std::string(1, '\0') + entry) != std::string::npos;
}

/// The fields of /proc/PID/stat behind the program's name (the first is the state); "" when gone.
std::string stat_fields(pid_t pid) {
  const std::string text = read_file(fmt::format("/proc/{}/stat", pid));
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

std::uint32_t signal_job(const std::string& job, int signal) {
  const std::string entry = "PENSTOCK_JOB=" + job + std::string(1, '\0');
  DIR* processes = opendir("/proc");
  if (!processes) return 0;
  std::uint32_t count = 0;
  while (const dirent* item = readdir(processes)) {
    const pid_t pid = static_cast<pid_t>(std::atol(item->d_name));
    if (pid <= 0 || pid == getpid()) continue;
    // Opened first: what is read afterwards is of this process or of none.
    const Descriptor process = open_process(pid);
    if (!process.valid() || !belongs_to(pid, entry)) continue;
    if (stat_fields(pid).starts_with("Z")) continue;
    ++count;
    if (signal != 0) syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0u);
  }
  closedir(processes);
  return count;
}

std::optional<std::string> zombie_verdict(pid_t pid) {
  constexpr int exit_code_field = 52, state_field = 3;  // as numbered in proc(5)
  std::istringstream fields(stat_fields(pid));
  std::string field, state;
  fields >> state;
  if (state != "Z") return std::nullopt;
  for (int i = state_field; i < exit_code_field; ++i) fields >> field;
  if (!fields) return std::nullopt;
  return verdict_of(std::atoi(field.c_str()));
}

std::string verdict_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
}

}  // namespace penstock::tools
