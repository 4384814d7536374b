#include "fuzz/virtual_time.hpp"

#include <sched.h>
#include <time.h>

#include <atomic>

namespace penstock::fuzz {
namespace {

constexpr std::uint64_t start_ns = 1'000'000'000;
/// A wait looks at the clock every few hundred polls; a deadline is then a few dozen looks away.
constexpr std::uint64_t a_look_ns = 2'000'000;
std::atomic<std::uint64_t> now_ns{start_ns};  // heartbeat threads read the clock too

}  // namespace

void restart_time() {
  now_ns = start_ns;
}

void pass_time(std::uint64_t ns) {
  now_ns += ns;
}

extern "C" {

int __wrap_clock_gettime(clockid_t, timespec* to) {
  const std::uint64_t now = now_ns += a_look_ns;
  to->tv_sec = static_cast<time_t>(now / 1'000'000'000);
  to->tv_nsec = static_cast<long>(now % 1'000'000'000);
  return 0;
}

int __wrap_nanosleep(const timespec* length, timespec*) {
  pass_time(static_cast<std::uint64_t>(length->tv_sec) * 1'000'000'000 +
            static_cast<std::uint64_t>(length->tv_nsec));
  return 0;
}

int __wrap_sched_yield() {
  pass_time(a_look_ns / 4);
  return 0;
}

}  // extern "C"

}  // namespace penstock::fuzz
