#include "base/cpus.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/wait.hpp"

namespace penstock::base {
namespace {

TEST(Cpus, CountsLists) {
  EXPECT_EQ(parse_cpu_list("0-2,8"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(count_cpu_list("0"), 1u);
  EXPECT_EQ(count_cpu_list("0-3,8"), 5u);
  EXPECT_EQ(count_cpu_list("2-2,4-7"), 5u);
  for (const char* bad : {"", "x", "3-1", "0-", "-1", "0-9999999999"}) {
    EXPECT_EQ(count_cpu_list(bad), std::nullopt) << bad;
  }
}

TEST(Cpus, ParsesQuota) {
  EXPECT_EQ(parse_quota("200000 100000"), 2u);
  EXPECT_EQ(parse_quota("150000 100000"), 1u);
  EXPECT_EQ(parse_quota("50000 100000"), 1u);
  for (const char* unlimited : {"max 100000", "-1 100000", "", "100000", "1 0"}) {
    EXPECT_EQ(parse_quota(unlimited), std::nullopt) << unlimited;
  }
}

class CgroupTest : public testing::Test {
 protected:
  CgroupTest()
      : root_(std::filesystem::temp_directory_path() /
              ("penstock_cgroup_" + std::to_string(getpid()))) {}
  ~CgroupTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  CgroupLimits limits(std::string_view membership) {
    return cgroup_limits(root_.string(), membership);
  }

  std::filesystem::path root_;
};

TEST_F(CgroupTest, TightestOfAllGroupsAboveBinds) {
  write("a/b/cpu.max", "400000 100000");
  write("a/cpu.max", "300000 100000");
  write("a/cpuset.cpus.effective", "0-7");
  write("a/b/cpuset.cpus.effective", "1-5");
  const CgroupLimits found = limits("0::/a/b\n");
  EXPECT_EQ(found.quota, 3u);
  EXPECT_EQ(found.cpuset, 5u);
}

TEST_F(CgroupTest, ReadsRootGroupWhenOwnIsHidden) {
  write("cpu.max", "200000 100000");
  EXPECT_EQ(limits("0::/only/the/host/sees/this\n").quota, 2u);
}

TEST_F(CgroupTest, ReadsVersionOne) {
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "250000");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  write("cpuset/job/cpuset.cpus", "0,1");
  const CgroupLimits found = limits("9:cpuset:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/x\n");
  EXPECT_EQ(found.quota, 2u);
  EXPECT_EQ(found.cpuset, 2u);
}

TEST_F(CgroupTest, NoFilesMeanNoLimits) {
  for (const char* membership : {"", "0::/", "nonsense\n", "0::/a\n"}) {
    EXPECT_EQ(limits(membership).quota, std::nullopt) << membership;
    EXPECT_EQ(limits(membership).cpuset, std::nullopt) << membership;
  }
}

TEST(Cpus, PinningLowersUsableButNotShared) {
  const std::uint32_t shared = shared_cpus();
  EXPECT_GE(shared, 1u);
  std::uint32_t pinned = 0, shared_when_pinned = 0;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    pinned = usable_cpus();
    shared_when_pinned = shared_cpus();
  }).join();
  EXPECT_EQ(pinned, 1u);
  EXPECT_EQ(shared_when_pinned, shared);
}

}  // namespace
}  // namespace penstock::base
