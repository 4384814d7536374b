#include "bench/pair_runner.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/format.hpp"

namespace penstock::bench {

// ---- one side --------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t longest_nap_ns = 20'000'000;
constexpr int polls_before_yield = 20'000;

void await(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  for (int polls = 0; word.load(std::memory_order_acquire) < value;)
    if (++polls > polls_before_yield) sched_yield();
}

void set_scheduler(int policy, int priority) {
  sched_param parameters{};
  parameters.sched_priority = priority;
  sched_setscheduler(0, policy, &parameters);
}

}  // namespace

void Side::meet() {
  ++rounds_;
  shared_.arrived[index_].value.store(rounds_, std::memory_order_release);
  await(shared_.arrived[1 - index_].value, rounds_);
}

std::uint64_t Side::exchange(std::uint64_t mine) {
  shared_.note[index_].value.store(mine, std::memory_order_release);
  meet();
  const std::uint64_t theirs = shared_.note[1 - index_].value.load(std::memory_order_acquire);
  meet();  // nobody writes the next number before both have read this one
  return theirs;
}

std::string Side::exchange(const std::string& mine) {
  const std::size_t bytes = std::min(mine.size(), letter_bytes);
  std::memcpy(shared_.letter[index_], mine.data(), bytes);
  const std::uint64_t theirs = exchange(bytes);
  const std::string letter(shared_.letter[1 - index_], std::min<std::size_t>(theirs, letter_bytes));
  meet();  // nobody writes the next letter before both have read this one
  return letter;
}

void Side::await_signal(std::uint64_t value) const {
  await(shared_.signal[1 - index_].value, value);
}

double Side::plain_handover_ns() {
  constexpr int warm_up = 4, measured = 24;
  auto& mine = shared_.ball[index_].value;
  const auto& theirs = shared_.ball[1 - index_].value;
  const auto play = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      ++balls_;
      if (index_ == 0) mine.store(balls_, std::memory_order_release);
      while (theirs.load(std::memory_order_acquire) < balls_) {
      }
      if (index_ == 1) mine.store(balls_, std::memory_order_release);
    }
  };
  meet();
  play(warm_up);
  return burst([&] { play(measured); }) / (2.0 * measured);
}

void Side::raise_priority() const {
  if (fifo_) set_scheduler(SCHED_FIFO, 1);
}

void Side::restore_priority(std::uint64_t burst_ns) const {
  if (!fifo_) return;
  set_scheduler(SCHED_OTHER, 0);
  const timespec nap{0, static_cast<long>(std::min(burst_ns, longest_nap_ns))};
  nanosleep(&nap, nullptr);
}

// ---- the supervisor ----------------------------------------------------------------------------

namespace {

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// Signals the supervisor waits for are held back while it lives.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&held_, signal);
    sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { release(); }
  void release() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int wait(std::uint64_t timeout_ns) const {
    const timespec time{static_cast<time_t>(timeout_ns / 1'000'000'000),
                        static_cast<long>(timeout_ns % 1'000'000'000)};
    return sigtimedwait(&held_, nullptr, &time);
  }

 private:
  sigset_t held_, before_;
};

class Supervisor {
 public:
  Supervisor(SharedState& shared, const PairOptions& options)
      : shared_(shared), options_(options) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor() { end_all(); }

  Result<void> start(unsigned index, int cpu, const std::function<Result<void>(Side&)>& body) {
    std::fflush(nullptr);
    const pid_t supervisor = getpid();
    const pid_t pid = fork();
    if (pid < 0) return fail(ErrorCode::unavailable, "cannot fork: {}", std::strerror(errno));
    if (pid == 0) live(index, cpu, supervisor, body);
    sides_[index] = pid;
    return {};
  }

  /// Waits until both have ended; the first failure decides the result.
  Result<void> watch() {
    const std::uint64_t end = base::now_ns() + options_.timeout_ns;
    while (sides_[0] != 0 || sides_[1] != 0) {
      const std::uint64_t now = base::now_ns();
      if (now >= end)
        return fail(ErrorCode::deadline, "the measurement did not end within {} s",
                    options_.timeout_ns / 1'000'000'000);
      const int signal = signals_.wait(std::min<std::uint64_t>(end - now, 100'000'000));
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP)
        return fail(ErrorCode::unavailable, "interrupted by signal {}", signal);
      if (auto reaped = reap(); !reaped) return reaped;
    }
    return {};
  }

 private:
  [[noreturn]] void live(unsigned index, int cpu, pid_t supervisor,
                         const std::function<Result<void>(Side&)>& body) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) _exit(1);
    signals_.release();
    pin_to(cpu);
    Side side(index, shared_, options_.fifo);
    const auto done = body(side);
    if (!done) std::snprintf(shared_.error[index], error_bytes, "%s", done.error().message.c_str());
    std::fflush(nullptr);
    _exit(done ? 0 : 1);  // without the supervisor's clean-up, which is not this process's
  }

  Result<void> reap() {
    for (unsigned index = 0; index < 2; ++index) {
      int status = 0;
      if (sides_[index] == 0 || waitpid(sides_[index], &status, WNOHANG) != sides_[index]) continue;
      sides_[index] = 0;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      if (WIFSIGNALED(status))
        return fail(ErrorCode::peer_dead, "side {} was ended by signal {}", index,
                    WTERMSIG(status));
      return fail(ErrorCode::internal, "side {}: {}", index, std::string(shared_.error[index]));
    }
    return {};
  }

  void end_all() {
    for (pid_t& pid : sides_) {
      if (pid == 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
      pid = 0;
    }
  }

  SharedState& shared_;
  PairOptions options_;
  HeldSignals signals_;
  pid_t sides_[2] = {0, 0};
};

}  // namespace

Result<void> run_pair(const PairOptions& options, const std::function<Result<void>(Side&)>& body) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2)
    return fail(ErrorCode::unavailable,
                "a measurement needs two CPUs, this process may use {}: see taskset -p $$",
                cpus.size());
  void* memory =
      mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorCode::no_space, "cannot map {} bytes: {}", sizeof(SharedState),
                std::strerror(errno));
  auto* shared = new (memory) SharedState{};
  Result<void> result;
  {
    Supervisor supervisor(*shared, options);
    for (unsigned index = 0; index < 2 && result; ++index)
      result = supervisor.start(index, cpus[index], body);
    if (result) result = supervisor.watch();
  }
  munmap(memory, sizeof(SharedState));
  return result;
}

}  // namespace penstock::bench
