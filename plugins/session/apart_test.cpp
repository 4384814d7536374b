#include "apart.hpp"

#include "pool/test_pool.hpp"

namespace penstock::plugin {
namespace {

class ApartTest : public pool::PoolTest {
 protected:
  void SetUp() override { create(); }
  Session session(std::int32_t rank, const std::string& job, const std::string& world = "") {
    Session made;
    made.launch.rank = rank;
    made.launch.job = job;
    made.launch.world = world;
    made.pool = attach();
    made.arena = arena::Arena::open(*made.pool).value();
    return made;
  }
};

TEST_F(ApartTest, IsToldOfOneRankAlone) {
  const Session here = session(0, "a"), there = session(3, "a"), elsewhere = session(0, "b");
  announce_apart(there, {.why = Apart::Why::unseen});
  EXPECT_EQ(announced_apart(here, 3).why, Apart::Why::unseen);
  EXPECT_EQ(announced_apart(there, 3).why, Apart::Why::unseen);
  EXPECT_EQ(announced_apart(here, 0), Apart{});
  EXPECT_EQ(announced_apart(elsewhere, 3), Apart{});
}

/// Ranks that the job has spawned count from 0 too.
TEST_F(ApartTest, StaysWithinItsWorld) {
  const Session here = session(0, "a", "a@1"), spawned = session(1, "a", "a@2");
  announce_apart(spawned, {.why = Apart::Why::unseen});
  EXPECT_EQ(announced_apart(here, 1), Apart{});
  const Session own = session(1, "a", "a@1");
  announce_apart(own, {.why = Apart::Why::unloaded});
  EXPECT_EQ(announced_apart(here, 1).why, Apart::Why::unloaded);
  EXPECT_EQ(announced_apart(spawned, 1).why, Apart::Why::unseen);
}

TEST_F(ApartTest, EndsWithTheProcess) {
  const Session here = session(0, "a");
  {
    const Session there = session(1, "a");
    const Apart chosen{.why = Apart::Why::own_choice, .calls = 5};
    announce_apart(there, chosen);
    announce_apart(there, chosen);  // another domain of the process
    EXPECT_EQ(announced_apart(here, 1), chosen);
  }
  EXPECT_EQ(announced_apart(here, 1), Apart{});
}

TEST_F(ApartTest, NeedsARankAndAJob) {
  const Session without_rank = session(-1, "a"), without_job = session(1, "");
  announce_apart(without_rank, {.why = Apart::Why::unloaded});
  announce_apart(without_job, {.why = Apart::Why::unloaded});
  EXPECT_EQ(announced_apart(without_rank, -1), Apart{});
  EXPECT_EQ(announced_apart(without_job, 1), Apart{});
}

}  // namespace
}  // namespace penstock::plugin
