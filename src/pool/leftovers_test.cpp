#include "pool/leftovers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "base/format.hpp"
#include "pool/host_identity.hpp"
#include "pool/node_caches.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

/// The pid of a process that has ended.
pid_t ended_pid() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

class LeftoversTest : public PoolTest {
 protected:
  std::string make(const std::string& name) {
    const std::string path = folder_.file(name);
    std::ofstream(path) << "x";
    return path;
  }
  std::string make_pool(const std::string& name) {
    CreateOptions options = create_options();
    options.spec = folder_.file(name);
    EXPECT_TRUE(pool::create(options));
    return options.spec;
  }
  std::uint32_t sweep() const { return sweep_leftovers(folder_.path()); }
  static bool there(const std::string& path) { return std::filesystem::exists(path); }
};

TEST_F(LeftoversTest, RemovesOldLeftoversOfDeadMakers) {
  const auto dead = ended_pid();
  const std::string fresh = make_pool(fmt::format("penstock.run-{}-0123abcd", dead));
  EXPECT_EQ(sweep(), 0u) << "just made: its maker may be in another process namespace";
  EXPECT_TRUE(there(fresh));
  {
    AttachOptions options;
    options.spec = fresh;
    const auto attached = Pool::attach(options);
    ASSERT_TRUE(attached);
    EXPECT_EQ(sweep_leftovers(folder_.path(), 0), 0u) << "somebody is attached";
  }
  {
    const base::UniqueFd claim = claim_own_pool(fresh);
    EXPECT_EQ(sweep_leftovers(folder_.path(), 0), 0u) << "its maker lives, where it cannot be seen";
  }
  EXPECT_EQ(sweep_leftovers(folder_.path(), 0), 1u);
  EXPECT_FALSE(there(fresh));
}

TEST_F(LeftoversTest, KeepsFilesOfOthers) {
  const auto dead = ended_pid();
  for (const std::string& name :
       {fmt::format("penstock.run-{}-0123abcd", ::getpid()),
        fmt::format("penstock.mine-{}-0123abcd", dead),
        fmt::format("penstock.run-{}-results", dead),
        fmt::format("penstock.run-{}-0123abcd.txt", dead), fmt::format("penstock.run-{}-", dead),
        fmt::format("run-{}-0123abcd", dead)}) {
    const std::string path = make_pool(name);
    EXPECT_EQ(sweep_leftovers(folder_.path(), 0), 0u) << name;
    EXPECT_TRUE(there(path)) << name;
  }
}

TEST_F(LeftoversTest, RemovesNodeFilesWithoutPoolAtOnce) {
  const auto dead = ended_pid();
  const std::string no_pool = make(fmt::format("penstock.run-{}-0123abce", dead));
  EXPECT_EQ(sweep_leftovers(folder_.path(), 0), 0u) << "it is no pool";
  EXPECT_TRUE(there(no_pool));
  const std::string pool = fmt::format("penstock.run-{}-0123abcd", dead);
  const std::string cache = node_cache_path(folder_.file(pool), 0x1234, *this_host(), 0);
  std::ofstream(cache) << "x";
  EXPECT_EQ(sweep(), 1u);
  EXPECT_FALSE(there(cache));
}

}  // namespace
}  // namespace penstock::pool
