// Processes that measure together, and the one that outlives them: when one of them dies, the time
// is up or the user interrupts, it ends what is left and returns, so that its caller can clean up.
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

/// Signals the supervisor waits for are held back while it lives.
class HeldSignals {
 public:
  HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { release(); }
  void release() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  /// The next of them, -1 after the time.
  int wait(std::uint64_t timeout_ns) const;

 private:
  sigset_t held_, before_;
};

class Supervisor {
 public:
  /// `noun`: what a process is called in messages. The processes may take `timeout_ns` in all.
  Supervisor(unsigned processes, const char* noun, std::uint64_t timeout_ns);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  /// Forks process `index`, which runs `body` pinned to `cpu` (nullopt: where it may), and ends.
  Result<void> start(unsigned index, std::optional<int> cpu,
                     const std::function<Result<void>()>& body);
  /// Waits until all have ended; the first failure decides the result. `tick` is called ten times a
  /// second. Errors: what a body returned, a process that died, deadline, interruption.
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
  char* errors_ = nullptr;  ///< shared memory
};

}  // namespace penstock::bench
