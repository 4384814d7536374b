// logind's settings, and cgroups, in made-up trees.
#include "pool/pool.hpp"
#include "test_tree.hpp"

namespace penstock::tools {
namespace {

constexpr unsigned person = 1000;

class Limits : public ::testing::Test {
 protected:
  Findings logout(unsigned user = person) {
    Findings findings;
    check_logout(findings, tree_.roots, user);
    return findings;
  }
  Findings cgroup(const std::string& spec = "") {
    Findings findings;
    check_cgroup(findings, tree_.roots, spec);
    return findings;
  }
  void logind(const std::string& file, const std::string& text) {
    tree_.write(file, text);
    tree_.write("/run/systemd/seats/seat0", "");
  }

  TestTree tree_;
};

TEST_F(Limits, NoLogind) {
  tree_.write("/etc/systemd/logind.conf", "[Login]\nRemoveIPC=yes\n");
  EXPECT_TRUE(logout().all().empty());
}

TEST_F(Limits, PoolsVanishByDefault) {
  logind("/etc/systemd/logind.conf", "[Login]\n#RemoveIPC=no\n");
  EXPECT_TRUE(says(only(logout()), Verdict::warn, {"the default", "enable-linger"}));
  EXPECT_TRUE(says(only(logout(0)), Verdict::ok, {"a system user's"}));
}

TEST_F(Limits, TheLastDropInDecides) {
  logind("/etc/systemd/logind.conf", "[Login]\nRemoveIPC=yes\n");
  logind("/usr/lib/systemd/logind.conf.d/10.conf", "[Login]\n RemoveIPC = no \n");
  EXPECT_TRUE(says(only(logout()), Verdict::ok, {"RemoveIPC=no"}));
  logind("/etc/systemd/logind.conf.d/20.conf", "[Other]\nRemoveIPC=no\n[Login]\nRemoveIPC=yes\n");
  EXPECT_TRUE(says(only(logout()), Verdict::warn, {"RemoveIPC=yes"}));
  logind("/etc/systemd/logind.conf.d/10.conf", "");  // hides the file of /usr
  std::filesystem::remove(tree_.folder() + "/etc/systemd/logind.conf.d/20.conf");
  EXPECT_TRUE(says(only(logout()), Verdict::warn, {"RemoveIPC=yes"}));
}

TEST_F(Limits, NoCgroups) {
  EXPECT_TRUE(says(only(cgroup()), Verdict::ok, {"unlimited memory, unlimited processes"}));
}

TEST_F(Limits, VersionTwoWithTheLeastOfAllAbove) {
  tree_.write("/proc/self/cgroup", "0::/a/b\n");
  tree_.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  tree_.write("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  tree_.write("/sys/fs/cgroup/a/b/pids.max", "500\n");
  EXPECT_TRUE(says(only(cgroup()), Verdict::ok, {"at most 1.0 GiB memory, at most 500 processes"}));
  tree_.write("/sys/fs/cgroup/a/pids.max", "10\n");
  EXPECT_TRUE(says(only(cgroup()), Verdict::warn, {"at most 10", "--pids-limit"}));
  tree_.write("/sys/fs/cgroup/a/b/memory.max", "1048576\n");
  EXPECT_TRUE(says(only(cgroup()), Verdict::warn, {"small shm: pools"}));
}

TEST_F(Limits, VersionOne) {
  tree_.write("/proc/self/cgroup", "8:pids:/\n4:cpu,memory:/job\nnonsense\n");
  tree_.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n");
  tree_.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree_.write("/sys/fs/cgroup/pids/pids.max", "max\n");
  EXPECT_TRUE(says(only(cgroup()), Verdict::ok, {"at most 2.0 GiB memory, unlimited"}));
}

TEST_F(Limits, APoolThatIsLarger) {
  tree_.write("/proc/self/cgroup", "0::/\n");
  tree_.write("/sys/fs/cgroup/memory.max", "16777216\n");
  const std::string spec = "shm:penstock-tools-test-" + std::to_string(::getpid());
  ASSERT_TRUE(pool::create({.spec = spec, .bytes = 32 << 20}));
  const Findings findings = cgroup(spec);
  ASSERT_TRUE(pool::remove(spec));
  EXPECT_TRUE(says(only(findings), Verdict::fail, {"less than the 32 MiB of pool", "--memory"}));
}

}  // namespace
}  // namespace penstock::tools
