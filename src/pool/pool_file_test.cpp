// Copies of pools, and several names of one pool: which processes are attached to which file.
#include "device/pool_file.hpp"

#include <filesystem>

#include "pool/test_foreign.hpp"

namespace penstock::pool {
namespace {

using ::testing::HasSubstr;

class PoolFileTest : public PoolTest {
 protected:
  void SetUp() override { create(); }
  std::string copied() const {
    const std::string copy = folder_.file("copy");
    std::filesystem::copy_file(spec_, copy);
    return copy;
  }
  static std::unique_ptr<Pool> attach_to(const std::string& spec) {
    auto pool = Pool::attach({.spec = spec});
    if (!pool) ADD_FAILURE() << pool.error().message;
    return pool ? std::move(*pool) : nullptr;
  }
};

TEST_F(PoolFileTest, CopyHasNoAttachedProcesses) {
  Child child = attached_child();
  const std::uint64_t token = child.next_report();
  const std::string copy = copied();
  const auto observer = Pool::attach({.spec = copy, .observer = true});
  ASSERT_TRUE(observer);
  EXPECT_FALSE((*observer)->alive(token));
  EXPECT_EQ((*observer)->members().local_processes(), 0u);
  EXPECT_TRUE(attach()->alive(token));
  EXPECT_THAT(remove(spec_).error().message, HasSubstr("is attached"));
  const auto removed = remove(copy);
  EXPECT_TRUE(removed) << removed.error().message;
}

TEST_F(PoolFileTest, CopyInheritsNoLock) {
  const auto original = attach();
  Child child([this](const Child::Report& report) {
    auto pool = attach();
    auto guard = pool->lock();
    if (!guard) return 2;
    report(pool->token());
    sleep_until_killed();
  });
  ASSERT_NE(child.next_report(), 0u);
  const auto pool = attach_to(copied());
  EXPECT_TRUE(pool->lock(second * 60));
  const auto refused = original->lock(50'000'000);
  EXPECT_FALSE(refused);
}

TEST_F(PoolFileTest, AnotherNameIsNoCopy) {
  Child child = attached_child();
  const std::uint64_t token = child.next_report();
  const std::string name = folder_.file("name"), link = folder_.file("link");
  std::filesystem::create_hard_link(spec_, name);
  std::filesystem::create_symlink(spec_, link);
  for (const std::string& other : {name, link}) {
    EXPECT_TRUE(attach_to(other)->alive(token)) << other;
    EXPECT_THAT(remove(other).error().message, HasSubstr("is attached")) << other;
  }
}

TEST_F(PoolFileTest, DifferentNumbersMayBeSameFile) {
  constexpr std::uint32_t plain = 1u << 30, overlay = 2u << 30;
  EXPECT_EQ(device::same_file(plain | 5, plain | 5), device::SameFile::yes);
  EXPECT_EQ(device::same_file(5, 5), device::SameFile::yes);
  EXPECT_EQ(device::same_file(plain | 5, plain | 6), device::SameFile::no);
  EXPECT_EQ(device::same_file(overlay | 5, overlay | 6), device::SameFile::no);
  EXPECT_EQ(device::same_file(plain | 5, overlay | 6), device::SameFile::unknown)
      << "its layer below";
  EXPECT_EQ(device::same_file(plain | 5, 6), device::SameFile::unknown);
  EXPECT_EQ(device::same_file(5, 6), device::SameFile::unknown);
}

// ---- links -------------------------------------------------------------------------------------

class LinkTest : public PoolFileTest {
 protected:
  void SetUp() override {
    PoolFileTest::SetUp();
    std::filesystem::create_symlink("real", link_);  // relative to its folder
    std::filesystem::rename(spec_, real_);
  }
  CreateOptions through_link() const {
    CreateOptions options = create_options();
    options.spec = link_;
    options.overwrite = true;
    return options;
  }

  std::string real_ = folder_.file("real"), link_ = folder_.file("link");
};

TEST_F(LinkTest, RemovesPoolThroughLink) {
  ASSERT_TRUE(remove(link_));
  EXPECT_FALSE(std::filesystem::exists(real_));
  EXPECT_TRUE(std::filesystem::is_symlink(link_));
  EXPECT_THAT(remove(link_).error().message, HasSubstr("where nothing is; to delete the link: rm"));
}

TEST_F(LinkTest, ReplacesPoolThroughLink) {
  const std::uint64_t before = inspect(real_)->id;
  ASSERT_TRUE(pool::create(through_link()));
  EXPECT_NE(inspect(real_)->id, before);
  EXPECT_EQ(inspect(link_)->id, inspect(real_)->id);
  EXPECT_TRUE(std::filesystem::is_symlink(link_));
  EXPECT_EQ(folder_.entries(), 2u);
}

TEST_F(LinkTest, MakesPoolAtTargetOfLink) {
  ASSERT_TRUE(remove(real_));
  ASSERT_TRUE(pool::create(through_link()));
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(real_)));
}

TEST_F(LinkTest, FollowsLinkChainsButNoCycle) {
  const std::string second_link = folder_.file("second"), circle = folder_.file("circle");
  std::filesystem::create_symlink(link_, second_link);
  std::filesystem::create_symlink(circle, circle);
  EXPECT_EQ(device::parse_spec(second_link)->front().path, real_);
  EXPECT_EQ(device::parse_spec(circle)->front().path, circle);
  EXPECT_EQ(inspect(circle).error().code, ErrorCode::unavailable);
  EXPECT_THAT(device::parse_spec(link_ + "," + real_).error().message, HasSubstr("twice"));
}

TEST_F(LinkTest, RefusesLinkToFolder) {
  const std::string link = folder_.file("folder-link");
  std::filesystem::create_directory(folder_.file("folder"));
  std::filesystem::create_symlink("folder", link);
  EXPECT_THAT(inspect(link).error().message, HasSubstr("is a folder"));
  CreateOptions options = create_options();
  options.spec = link;
  EXPECT_EQ(pool::create(options).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(remove(link));
  EXPECT_TRUE(std::filesystem::is_directory(folder_.file("folder")));
}

}  // namespace
}  // namespace penstock::pool
