// Who left the pool without a word, in the order of the ends.
#include <filesystem>

#include "base/environment_guard.hpp"
#include "pool/roll.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

class RollTest : public PoolTest {
 protected:
  void SetUp() override {
    create();
    roll_folder_ = folder_.file("roll");
    std::filesystem::create_directory(roll_folder_);
    guard_.emplace("PENSTOCK_ROLL", roll_folder_.c_str());
  }
  static std::vector<std::uint64_t> tokens_of(const std::vector<Roll::Entry>& entries) {
    std::vector<std::uint64_t> tokens;
    for (const auto& entry : entries) tokens.push_back(entry.generation << 16 | entry.slot);
    return tokens;
  }

  std::string roll_folder_;
  std::optional<base::EnvironmentGuard> guard_;
};

TEST_F(RollTest, TellsTheOrderInWhichTheyWereKilledHoweverLateItIsRead) {
  auto roll = Roll::watch(roll_folder_, inspect(spec_)->id);
  ASSERT_TRUE(roll) << roll.error().message;
  Child first = attached_child(), second = attached_child(), third = attached_child();
  const std::uint64_t tokens[] = {first.next_report(), second.next_report(), third.next_report()};
  { auto leaves_in_order = attach(); }
  for (Child* child : {&second, &third, &first}) {
    child->kill(SIGKILL);
    child->wait();
  }
  EXPECT_THAT(tokens_of(roll->ended()), testing::ElementsAre(tokens[1], tokens[2], tokens[0]));
  EXPECT_TRUE(roll->ended().empty()) << "each is told once";
}

TEST_F(RollTest, AnotherPoolsProcessesAreNotToldOf) {
  auto roll = Roll::watch(roll_folder_, inspect(spec_)->id + 1);
  ASSERT_TRUE(roll) << roll.error().message;
  Child child = attached_child();
  child.next_report();
  child.kill(SIGKILL);
  child.wait();
  EXPECT_TRUE(roll->ended().empty());
}

TEST_F(RollTest, WithoutAFolderOneAttachesAllTheSame) {
  const base::EnvironmentGuard absent("PENSTOCK_ROLL", "/nowhere/at/all");
  EXPECT_TRUE(attach());
  const auto roll = Roll::watch("/nowhere/at/all", 1);
  ASSERT_FALSE(roll);
  EXPECT_THAT(roll.error().message, testing::HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace penstock::pool
