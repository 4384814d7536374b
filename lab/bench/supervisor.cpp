#include "bench/supervisor.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/clock.hpp"
#include "base/format.hpp"

namespace penstock::bench {

namespace {

constexpr std::size_t error_bytes = 1024;

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&held_, signal);
  sigprocmask(SIG_BLOCK, &held_, &before_);
}

int HeldSignals::wait(std::uint64_t timeout_ns) const {
  const timespec time{static_cast<time_t>(timeout_ns / 1'000'000'000),
                      static_cast<long>(timeout_ns % 1'000'000'000)};
  return sigtimedwait(&held_, nullptr, &time);
}

Supervisor::Supervisor(unsigned processes, const char* noun, std::uint64_t timeout_ns)
    : noun_(noun), timeout_ns_(timeout_ns), pids_(processes) {
  void* const memory = mmap(nullptr, processes * error_bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) errors_ = static_cast<char*>(memory);
}

Supervisor::~Supervisor() {
  end_all();
  if (errors_ != nullptr) munmap(errors_, pids_.size() * error_bytes);
}

char* Supervisor::error_of(unsigned index) const {
  return errors_ + index * error_bytes;
}

Result<void> Supervisor::start(unsigned index, std::optional<int> cpu,
                               const std::function<Result<void>()>& body) {
  if (errors_ == nullptr)
    return fail(ErrorCode::no_space, "cannot map {} bytes", pids_.size() * error_bytes);
  std::fflush(nullptr);
  const pid_t supervisor = getpid();
  const pid_t pid = fork();
  if (pid < 0) return fail(ErrorCode::unavailable, "cannot fork: {}", std::strerror(errno));
  if (pid == 0) live(index, cpu, supervisor, body);
  pids_[index] = pid;
  return {};
}

void Supervisor::live(unsigned index, std::optional<int> cpu, pid_t supervisor,
                      const std::function<Result<void>()>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);
  signals_.release();
  if (cpu) pin_to(*cpu);
  const auto done = body();
  if (!done) std::snprintf(error_of(index), error_bytes, "%s", done.error().message.c_str());
  std::fflush(nullptr);
  _exit(done ? 0 : 1);  // without the supervisor's clean-up, which this process must not do
}

bool Supervisor::any_left() const {
  return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid != 0; });
}

Result<void> Supervisor::watch(const std::function<void()>& tick) {
  const std::uint64_t end = base::now_ns() + timeout_ns_;
  while (any_left()) {
    const std::uint64_t now = base::now_ns();
    if (now >= end)
      return fail(ErrorCode::deadline, "the measurement did not end within {} s",
                  timeout_ns_ / 1'000'000'000);
    const int signal = signals_.wait(std::min<std::uint64_t>(end - now, 100'000'000));
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP)
      return fail(ErrorCode::unavailable, "interrupted by signal {}", signal);
    if (auto reaped = reap(); !reaped) return reaped;
    if (tick) tick();
  }
  return {};
}

Result<void> Supervisor::reap() {
  for (unsigned index = 0; index < pids_.size(); ++index) {
    int status = 0;
    if (pids_[index] == 0 || waitpid(pids_[index], &status, WNOHANG) != pids_[index]) continue;
    pids_[index] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (WIFSIGNALED(status))
      return fail(ErrorCode::peer_dead, "{} {} was ended by signal {}", noun_, index,
                  WTERMSIG(status));
    return fail(ErrorCode::internal, "{} {}: {}", noun_, index, std::string(error_of(index)));
  }
  return {};
}

void Supervisor::end_all() {
  for (pid_t& pid : pids_) {
    if (pid == 0) continue;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }
}

}  // namespace penstock::bench
