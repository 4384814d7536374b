// Two processes that share a pool of their own, one for each side of a connection. For tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "pool/pool.hpp"
#include "provider_side.hpp"

namespace penstock::ofi::test {

using penstock::coherence::Mode;

using Play = std::function<void(Side&)>;

class PairTest : public ::testing::Test {
 protected:
  /// Makes the pool, before the first play.
  void make_pool(Mode mode) {
    spec_ = "shm:penstock-ofi-test-" + std::to_string(::getpid());
    penstock::pool::CreateOptions options;
    options.spec = spec_;
    options.bytes = 64u << 20;
    options.mode = mode;
    options.overwrite = true;
    const auto made = penstock::pool::create(options);
    ASSERT_TRUE(made) << made.error().message;
  }
  void TearDown() override { (void)penstock::pool::remove(spec_, true); }

  /// Plays both sides, each in a process of its own.
  void play(const Play& left, const Play& right, std::uint64_t cq_flags = 0) {
    play_sides(left, right, cq_flags, false);
  }
  /// Like play(), but the left process kills itself; only the right one's result counts.
  void play_until_death(const Play& left, const Play& right) { play_sides(left, right, 0, true); }

  void play_sides(const Play& left, const Play& right, std::uint64_t cq_flags, bool left_dies) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const Play* sides[2] = {&left, &right};
    pid_t children[2];
    for (int i = 0; i < 2; ++i) {
      children[i] = ::fork();
      ASSERT_GE(children[i], 0);
      if (children[i] == 0) ::_exit(run_side(*sides[i], ends[i], i, cq_flags));
    }
    ::close(ends[0]);
    ::close(ends[1]);
    for (int i = 0; i < 2; ++i) {
      int status = 0;
      ASSERT_EQ(::waitpid(children[i], &status, 0), children[i]);
      if (i == 0 && left_dies)
        EXPECT_TRUE(WIFSIGNALED(status)) << "side " << i;
      else
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "side " << i;
    }
  }

  int run_side(const Play& side_play, int link, int index, std::uint64_t cq_flags) {
    ::setenv("PENSTOCK_POOL", spec_.c_str(), 1);
    ::setenv("PENSTOCK_NODE", std::to_string(index).c_str(), 1);
    ::setenv("PMI_RANK", std::to_string(index).c_str(), 1);
    ::setenv("PENSTOCK_JOB", spec_.c_str(), 1);
    ::alarm(60);
    try {
      Side side;
      side.threading = threading_;
      side.tx_op_flags = tx_op_flags_;
      side.open(link, index, cq_flags);
      side_play(side);
      side.close();
    } catch (const Failed& failed) {
      std::fprintf(stderr, "side %d: %s\n", index, failed.what.c_str());
      return 1;
    }
    return 0;
  }

  std::string spec_;
  std::uint64_t tx_op_flags_ = 0;  ///< default transmit flags of the endpoints
  fi_threading threading_ = FI_THREAD_DOMAIN;
};

/// Runs a pair in each coherence mode of real machines.
class ModesTest : public PairTest, public ::testing::WithParamInterface<Mode> {
 protected:
  void SetUp() override { make_pool(GetParam()); }
};
inline std::string mode_of_test(const ::testing::TestParamInfo<Mode>& test) {
  return coherence::mode_name(test.param);
}
#define IN_EACH_MODE(suite)                                                                 \
  INSTANTIATE_TEST_SUITE_P(Modes, suite, ::testing::Values(Mode::hardware, Mode::software), \
                           mode_of_test)

}  // namespace penstock::ofi::test
