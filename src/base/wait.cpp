#include "base/wait.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "base/cpus.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/interruptible.hpp"
#include "base/log.hpp"

namespace penstock::base {
namespace {

constexpr std::uint64_t dead_check_interval_ns = 20'000'000;
/// If hundreds of processes share a core, those that wait must leave it to those that work.
constexpr std::uint64_t longest_sleep_ns = 20'000'000;
constexpr std::uint32_t fewest_yields = 64;
/// A wait that has lasted long sleeps longer, so that it costs the device little: it notices the
/// event late by at most this share of the wait.
constexpr std::uint64_t late_share = 16;
/// Upper bound on a waiting thread's time between two polls, unless it was stopped.
constexpr std::uint64_t longest_step_ns = 1'000'000'000;
/// Polls between two looks at the clock while spinning and while yielding.
constexpr std::uint64_t spins_per_check = 256;
constexpr std::uint64_t yields_per_check = 16;

constexpr std::uint32_t spins_with_own_core = 20'000;
/// Not 0, for a caller that polls again although it already has its result.
constexpr std::uint32_t spins_when_crowded = 1;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

/// The number in a variable; warns about a value that cannot be parsed, and ignores it.
std::optional<std::uint64_t> number_or_warn(const char* name) {
  auto number = env_number(name);
  if (number) return *number;
  log(Level::warn, "{}; ignored", number.error().message);
  return std::nullopt;
}

std::optional<std::uint32_t> spins_asked_for() {
  static const std::optional<std::uint32_t> spins = []() -> std::optional<std::uint32_t> {
    if (!env_is_set("PENSTOCK_SPIN")) return std::nullopt;
    const auto number = number_or_warn("PENSTOCK_SPIN");
    if (!number) return std::nullopt;
    return static_cast<std::uint32_t>(*number);
  }();
  return spins;
}

thread_local const DeadCheck* interruption = nullptr;

void sleep_for(std::uint64_t ns) {
  const timespec length{static_cast<time_t>(ns / 1'000'000'000),
                        static_cast<long>(ns % 1'000'000'000)};
  nanosleep(&length, nullptr);  // a signal may cut it short: the caller polls again
}

}  // namespace

Interruptible::Interruptible(const DeadCheck& check)
    : outer_(std::exchange(interruption, &check)) {}

const DeadCheck* Interruptible::exchange(const DeadCheck* check) {
  return std::exchange(interruption, check);
}

Interruptible::~Interruptible() {
  interruption = outer_;
}

std::uint64_t default_timeout_ns() {
  static const std::uint64_t timeout_ns = [] {
    return number_or_warn("PENSTOCK_TIMEOUT_MS").value_or(60'000) * 1'000'000;
  }();
  return timeout_ns;
}

WaitPolicy WaitPolicy::for_processes(std::uint32_t runnable) {
  WaitPolicy policy;
  const std::uint32_t cpus = std::max(usable_cpus(), shared_cpus());
  policy.spins = runnable <= cpus ? spins_with_own_core : spins_when_crowded;
  if (const std::uint32_t crowd = runnable / cpus; crowd > 1) {
    policy.yields = std::max(policy.yields / crowd, fewest_yields);
    policy.sleep_ns = std::min(policy.sleep_ns * crowd, longest_sleep_ns);
  }
  if (const auto asked = spins_asked_for()) policy.spins = *asked;
  return policy;
}

Waiter::Waiter(const char* what, std::uint64_t timeout_ns, DeadCheck dead_check, WaitPolicy policy)
    : what_(what),
      timeout_ns_(timeout_ns != 0 ? timeout_ns : default_timeout_ns()),
      awake_(longest_step_ns),
      next_check_ns_(std::min(dead_check_interval_ns, timeout_ns_ / 2)),
      dead_check_(std::move(dead_check)),
      policy_(policy) {}

Result<void> Waiter::pause() {
  const std::uint64_t poll = ++polls_;
  if (poll <= policy_.spins) {
    relax();
    if (poll % spins_per_check != 0) return {};
  } else if (poll - policy_.spins <= policy_.yields) {
    sched_yield();
    if (poll % yields_per_check != 0) return {};
  } else {
    sleep_for(std::max(policy_.sleep_ns, std::min(looked_ns_ / late_share, policy_.late_sleep_ns)));
  }
  return slow_checks();
}

Result<void> Waiter::slow_checks() {
  const std::uint64_t now = awake_.now_ns();
  looked_ns_ = now;
  if (now >= next_check_ns_) {
    next_check_ns_ = now + dead_check_interval_ns;
    if (interruption != nullptr) PENSTOCK_TRY((*interruption)());
    if (dead_check_) PENSTOCK_TRY(dead_check_());
  }
  if (now < timeout_ns_) return {};
  const std::uint64_t waited_ms = now / 1'000'000;
  if (timeout_ns_ != default_timeout_ns()) {
    return fail(ErrorCode::deadline, "waited {} ms for {}, which did not happen", waited_ms, what_);
  }
  return fail(ErrorCode::deadline,
              "waited {} ms for {}, which did not happen; to wait longer: export "
              "PENSTOCK_TIMEOUT_MS={}",
              waited_ms, what_, timeout_ns_ / 1'000'000 * 10);
}

void Backoff::yield() {
  sched_yield();
}

}  // namespace penstock::base
