// Two processes run a litmus test; one of them dies at any step.
#include "crash_test_base.hpp"
#include "litmus/rendezvous.hpp"

namespace penstock::crash {
namespace {

constexpr std::uint64_t wait_ns = 2'000'000'000;

class LitmusCrash : public CrashTest {
 protected:
  enum Report : std::uint64_t { came_first = 1, done, named_the_dead, nobody_came, anything_else };
  struct Fate {
    std::uint64_t dies_at = 0;  ///< 0: does not die, and its steps are counted
    bool armed = false;
  };

  /// Runs one side in a process of its own. Reports its result, then the steps of the armed side.
  void take_part(std::uint32_t node, Fate fate, const pool::Child::Report& report) const {
    const Attached here = attach(spec_, {.emulated_node = node});
    if (fate.armed) arm(fate.dies_at, Deed::die);
    const auto outcome = litmus::run(
        *here.arena,
        {.rounds = 2, .timeout_ns = wait_ns, .alone = [&report] { report(came_first); }});
    const std::uint64_t steps = fate.armed ? disarm() : 0;
    report(outcome ? done : ending(outcome.error()));
    if (fate.armed) report(steps);
  }

  static Report ending(const Error& error) {
    if (error.code == ErrorCode::peer_dead && error.message.find(" died") != std::string::npos) {
      return named_the_dead;
    }
    if (error.message.find("other side of the litmus test to come") != std::string::npos) {
      return nobody_came;
    }
    fmt::print(stderr, "litmus: {}\n", error.message);
    return anything_else;
  }

  static std::uint64_t last_report(const pool::Child& child) {
    std::uint64_t last = child.next_report();
    if (last == came_first) last = child.next_report();
    return last;
  }

  /// Runs both sides; the victim arrives first or second. Returns its steps if it survived, else 0.
  std::uint64_t meet(std::uint64_t dies_at, bool first) {
    const auto side = [&](std::uint32_t node, bool armed) {
      return [this, node, fate = Fate{dies_at, armed}](const pool::Child::Report& report) {
        take_part(node, fate, report);
        return 0;
      };
    };
    pool::Child one(side(0, first));
    EXPECT_TRUE(one.next_report() == came_first || first);
    pool::Child two(side(1, !first));
    pool::Child& victim = first ? one : two;
    pool::Child& survivor = first ? two : one;
    const std::uint64_t survived = last_report(survivor), ended = last_report(victim);
    const std::uint64_t steps = ended != 0 ? victim.next_report() : 0;
    EXPECT_EQ(survivor.wait(), 0);
    const bool died = victim.wait() == 128 + SIGKILL;
    EXPECT_EQ(died, ended == 0);
    if (died) {
      // A death before the arrival or after the last report is not noticed.
      EXPECT_TRUE(survived == named_the_dead || survived == nobody_came || survived == done)
          << survived;
    } else {
      EXPECT_EQ(survived, done);
      EXPECT_EQ(ended, done);
      EXPECT_TRUE(dies_at == 0 || steps < dies_at) << "nobody died";
    }
    return steps;
  }
};

TEST_F(LitmusCrash, EitherSideDiesAtEachStep) {
  create();
  for (const bool first : {true, false}) {
    const std::uint64_t total = meet(0, first);
    ASSERT_GT(total, 0u);
    const Standing before = collected(spec_);
    CrashStatistics statistics(first ? "litmus, first side" : "litmus, second side", total);
    for (const std::uint64_t at : sample(total, 25)) {
      SCOPED_TRACE(fmt::format("died at step {} of {}, TEST_SEED={}", at, total, seed()));
      statistics.tried();
      meet(at, first);
      EXPECT_EQ(collected(spec_), before);
      if (HasFailure()) return;
      statistics.survived();
    }
  }
}

}  // namespace
}  // namespace penstock::crash
