// Emulates several hosts on one, for tests.
#pragma once

#include <chrono>
#include <thread>

#include "base/clock.hpp"
#include "pool/attach_as.hpp"
#include "pool/lease.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {

/// The identity of another machine.
inline Caller caller_of_another_host(std::uint8_t number, std::uint8_t machine = 0) {
  Caller caller{*this_host(), *this_process()};
  caller.host.host = fmt::format("host{}", number);
  caller.host.boot_id.fill(number);
  caller.host.machine_id.fill(machine != 0 ? machine : number);
  return caller;
}

/// Tests with emulated hosts: a lease decides which of their processes live.
class ForeignTest : public PoolTest {
 protected:
  void SetUp() override {
    ::setenv("PENSTOCK_LEASE_MS", "400", 1);
    create();
  }
  void TearDown() override { ::unsetenv("PENSTOCK_LEASE_MS"); }

  std::unique_ptr<Pool> attach_from(std::uint8_t host, std::uint8_t machine = 0,
                                    AttachOptions options = {}) const {
    options.spec = spec_;
    auto pool = attach_as(options, caller_of_another_host(host, machine));
    if (!pool) {
      ADD_FAILURE() << pool.error().message;
      return nullptr;
    }
    return std::move(*pool);
  }
  /// A process attached from host `host` until it is killed; `held`: holds the pool's lock.
  Child foreign_child(std::uint8_t host, bool held = false) const {
    return Child([this, host, held](const Child::Report& report) {
      auto pool = attach_from(host);
      if (!pool) return 2;
      auto guard = held ? pool->lock() : Result<Pool::Guard>(make_error(ErrorCode::internal, ""));
      report(pool->token());
      sleep_until_killed();
    });
  }
  static bool dies_within(const Pool& pool, std::uint64_t token, std::uint64_t limit_ns) {
    for (const std::uint64_t start = base::now_ns(); base::now_ns() - start < limit_ns;) {
      if (!pool.alive(token)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
};

inline constexpr std::uint64_t second = 1'000'000'000;

}  // namespace penstock::pool
