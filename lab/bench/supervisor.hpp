// Processes that measure together, and a supervisor that outlives them: if one of them dies, the
// time is up or the user interrupts, it ends the others and returns, so that its caller can clean
// up.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.hpp"

namespace penstock::bench {

/// CPUs that this process may use.
std::vector<int> allowed_cpus();

/// Holds back the signals that the supervisor waits for, while it lives.
class HeldSignals {
 public:
  HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { release(); }
  void release() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  /// Returns the next of them; -1 after `timeout_ns`.
  int wait(std::uint64_t timeout_ns) const;

 private:
  sigset_t held_, before_;
};

class Supervisor {
 public:
  /// `noun`: what a process is called in messages. `timeout_ns`: for the processes, in all.
  Supervisor(unsigned processes, const char* noun, std::uint64_t timeout_ns);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  /// Forks process `index`, which runs `body` pinned to `cpu` (nullopt: not pinned) and then ends.
  Result<void> start(unsigned index, std::optional<int> cpu,
                     const std::function<Result<void>()>& body);
  /// Waits until all have ended; the first failure decides the result. Calls `tick` ten times a
  /// second. Errors: those of a body, a process that died, deadline, interruption.
  Result<void> watch(const std::function<void()>& tick = {});

 private:
  [[noreturn]] void live(unsigned index, std::optional<int> cpu, pid_t supervisor,
                         const std::function<Result<void>()>& body);
  bool any_left() const;
  Result<void> reap();
  void end_all();
  char* error_of(unsigned index) const;

  const char* noun_;
  std::uint64_t timeout_ns_;
  HeldSignals signals_;
  std::vector<pid_t> pids_;
  char* errors_ = nullptr;  ///< in shared memory
};

}  // namespace penstock::bench
