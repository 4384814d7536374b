#include "apart.hpp"

#include "pool/test_pool.hpp"

namespace penstock::plugin {
namespace {

class ApartTest : public pool::PoolTest {
 protected:
  void SetUp() override { create(); }
  Session session(std::int32_t rank, const std::string& job) {
    Session made;
    made.launch.rank = rank;
    made.launch.job = job;
    made.pool = attach();
    made.arena = arena::Arena::open(*made.pool).value();
    return made;
  }
};

TEST_F(ApartTest, IsToldOfARankAndItsJobAlone) {
  const Session here = session(0, "a"), there = session(3, "a"), elsewhere = session(0, "b");
  tell_apart(there, Apart::unseen);
  EXPECT_EQ(told_apart(here, 3), Apart::unseen);
  EXPECT_EQ(told_apart(there, 3), Apart::unseen);
  EXPECT_EQ(told_apart(here, 0), std::nullopt);
  EXPECT_EQ(told_apart(elsewhere, 3), std::nullopt);
}

TEST_F(ApartTest, EndsWithTheProcess) {
  const Session here = session(0, "a");
  {
    const Session there = session(1, "a");
    tell_apart(there, Apart::no_collectives);
    tell_apart(there, Apart::no_collectives);  // another domain of the process
    EXPECT_EQ(told_apart(here, 1), Apart::no_collectives);
  }
  EXPECT_EQ(told_apart(here, 1), std::nullopt);
}

TEST_F(ApartTest, IsNotToldWithoutARankOrAJob) {
  const Session without_rank = session(-1, "a"), without_job = session(1, "");
  tell_apart(without_rank, Apart::unloaded);
  tell_apart(without_job, Apart::unloaded);
  EXPECT_EQ(told_apart(without_rank, -1), std::nullopt);
  EXPECT_EQ(told_apart(without_job, 1), std::nullopt);
}

}  // namespace
}  // namespace penstock::plugin
