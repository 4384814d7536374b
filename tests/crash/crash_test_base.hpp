// Shared by the crash tests: a pool, victims, and checks that must hold after every death.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "arena/arena.hpp"
#include "base/clock.hpp"
#include "pool/members.hpp"
#include "pool/test_pool.hpp"
#include "samples.hpp"
#include "steps.hpp"

namespace penstock::crash {

/// An attachment with its arena. The arena is destroyed before the pool.
struct Attached {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;

  ~Attached() { detach(); }
  Attached() = default;
  Attached(Attached&&) = default;
  Attached& operator=(Attached&&) = default;
  void detach() {
    arena.reset();
    pool.reset();
  }
};

inline Attached attach(const std::string& spec, const pool::AttachOptions& how = {}) {
  pool::AttachOptions options = how;
  options.spec = spec;
  auto pool = pool::Pool::attach(options);
  if (!pool) throw std::runtime_error(pool.error().message);
  auto arena = arena::Arena::open(**pool);
  if (!arena) throw std::runtime_error(arena.error().message);
  Attached attached;
  attached.pool = std::move(*pool);
  attached.arena = std::move(*arena);
  return attached;
}

/// Figures that must be the same as before once all processes have left the pool.
struct Standing {
  std::uint64_t bytes_used = 0, objects = 0;
  std::uint32_t attached = 0;
  bool operator==(const Standing&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Standing& s) {
  return out << s.objects << " objects, " << s.bytes_used << " bytes, " << s.attached
             << " attached";
}

/// Reclaims what dead processes left, like `penstock pool gc --yes`. Returns the figures after
/// that.
inline Standing collected(const std::string& spec) {
  const Attached here = attach(spec);
  const auto freed = here.arena->collect();
  EXPECT_TRUE(freed) << freed.error().message;
  Standing now;
  const auto stats = here.arena->stats();
  now.bytes_used = stats.bytes_used;
  now.objects = stats.objects;
  for (const auto& process : here.pool->members().processes()) now.attached += process.attached;
  return now;
}

/// Runs in a process of its own: prepares, calls armed(), then does the steps in which it may die.
using Victim = std::function<void(const std::function<void()>& armed)>;

struct End {
  bool died = false, stopped = false;
  std::uint64_t steps = 0;  ///< steps counted, if the victim finished
};

/// Kills a victim before its step `at`. With 0 the victim finishes, and its steps are counted.
inline End run_victim(std::uint64_t at, const Victim& victim) {
  pool::Child child([&](const pool::Child::Report& report) {
    try {
      victim([at] { arm(at, Deed::die); });
    } catch (const std::exception& error) {
      fmt::print(stderr, "victim: {}\n", error.what());
      return 3;
    }
    report(disarm());
    return 0;
  });
  End end;
  end.steps = child.next_report();
  const int status = child.wait();
  end.died = status == 128 + SIGKILL;
  EXPECT_TRUE(status == 0 || end.died) << "exit status " << status << " at step " << at;
  return end;
}

/// True once the child has stopped; false if it ended, because the run had fewer steps than the
/// sampled one.
inline bool wait_until_stopped_or_ended(const pool::Child& child) {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED | WEXITED | WNOWAIT);
  return info.si_code == CLD_STOPPED;
}

class CrashTest : public testing::Test {
 protected:
  void create(std::uint64_t bytes = 16 << 20, std::uint32_t processes = 16,
              coherence::Mode mode = coherence::Mode::software) {
    auto made = pool::create(
        {.spec = spec_, .bytes = bytes, .mode = mode, .max_processes = processes, .max_nodes = 16});
    ASSERT_TRUE(made) << made.error().message;
    attach(spec_);
  }

  /// Kills a victim at each step, or at a sample of them. After each death runs `check`, and checks
  /// that the pool is as before. `begin` runs before each victim.
  void survive_everywhere(
      const std::string& protocol, std::uint64_t default_samples, const Victim& victim,
      const std::function<void()>& check, const std::function<void()>& begin = [] {}) {
    begin();
    const std::uint64_t total = run_victim(0, victim).steps;
    ASSERT_GT(total, 0u) << "nothing was counted: is coherence::bind still wrapped?";
    check();
    const Standing before = collected(spec_);
    CrashStatistics statistics(protocol, total);
    for (const std::uint64_t at : sample(total, default_samples)) {
      SCOPED_TRACE(
          fmt::format("{}, died at step {} of {}, TEST_SEED={}", protocol, at, total, seed()));
      statistics.tried();
      begin();
      const End end = run_victim(at, victim);
      // A run may need fewer steps than the counted one, but never none.
      EXPECT_TRUE(end.died || (at > 1 && end.steps < at)) << "nobody died";
      check();
      EXPECT_EQ(collected(spec_), before);
      if (HasFailure()) return;
      statistics.survived();
    }
  }

  pool::TestFolder folder_;
  std::string spec_ = folder_.file("pool");
};

}  // namespace penstock::crash
