#include "base/numa.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "base/service_thread.hpp"

namespace penstock::base {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A tree of sysfs: nodes 0 and 1 with CPUs, node 2 with CXL memory.
class NumaTest : public testing::Test {
 protected:
  NumaTest() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-numa-XXXXXX").string();
    sys_ = ::mkdtemp(name.data());
    const std::string nodes = "devices/system/node/";
    write(nodes + "node10/cpulist", "8-9\n");
    write(nodes + "node0/cpulist", "0-3\n");
    write(nodes + "node1/cpulist", "4-7\n");
    write(nodes + "node2/cpulist", "\n");
    write(nodes + "nodes/cpulist", "0-9\n");
    write(nodes + "possible", "0-2\n");
  }
  ~NumaTest() override { std::filesystem::remove_all(sys_); }
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path at = sys_ + "/" + path;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text;
  }

  std::string sys_;
};

TEST_F(NumaTest, NodesAreThoseWithCpus) {
  const auto nodes = numa_nodes(sys_);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[1].number, 1);
  EXPECT_THAT(nodes[1].cpus, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(nodes[2].number, 10);
  EXPECT_THAT(numa_nodes(sys_ + "/absent"), IsEmpty());
}

TEST_F(NumaTest, CpusAreOfOneNodeOrOfSeveral) {
  const auto nodes = numa_nodes(sys_);
  EXPECT_EQ(node_of(nodes, {5, 7}), 1);
  EXPECT_EQ(node_of(nodes, {3, 4}), std::nullopt);
  EXPECT_EQ(node_of(nodes, {}), std::nullopt);
  EXPECT_EQ(node_of(nodes, {99}), std::nullopt);
}

TEST_F(NumaTest, DevicesSayWhereTheyAre) {
  write("bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
  write("bus/pci/devices/0000:3c:00.0/numa_node", "-1\n");
  EXPECT_EQ(numa_node_of_pci("0000:3B:00.0", sys_), 1);
  EXPECT_EQ(numa_node_of_pci("0000:3c:00.0", sys_), std::nullopt);
  EXPECT_EQ(numa_node_of_pci("0000:ff:00.0", sys_), std::nullopt);
  EXPECT_EQ(numa_node_of_pci("../devices/0000:3b:00.0", sys_), std::nullopt);
}

/// They never use a CPU that the rank itself may not use.
TEST_F(NumaTest, ThreadsStayAmongTheCpusOfTheirRank) {
  const auto nodes = numa_nodes(sys_);
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_THAT(cpus_near(nodes, all, 1), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(cpus_near(nodes, {3, 4, 6}, 1), ElementsAre(4, 6));
  EXPECT_THAT(cpus_near(nodes, {4, 6}, 1), IsEmpty());  // all of them are near: the mask stays
  EXPECT_THAT(cpus_near(nodes, {0, 1}, 1), IsEmpty());  // the rank is bound elsewhere: that binding
                                                        // counts
  EXPECT_THAT(cpus_near(nodes, all, 2), IsEmpty());     // node 2 has no CPUs
  EXPECT_THAT(cpus_near(nodes, all, std::nullopt), IsEmpty());
  EXPECT_THAT(cpus_near({nodes[0]}, all, 0), IsEmpty());  // there is only one node
}

struct Bound {
  void* at = nullptr;
  std::size_t bytes = 0;
  int node = -1;
};
Bound bound;

TEST(KeepOnNode, BindsWholePages) {
  const NumaLibrary library{.available = [] { return 0; },
                            .tonode_memory =
                                [](void* at, std::size_t bytes, int node) {
                                  bound = {at, bytes, node};
                                }};
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* const at = static_cast<std::byte*>(
      ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_TRUE(keep_on_node(at, 4 * page, 1, 2, &library));
  EXPECT_EQ(bound.at, at);
  EXPECT_EQ(bound.bytes, 4 * page);
  EXPECT_EQ(bound.node, 1);
  EXPECT_TRUE(keep_on_node(at + 1, 2 * page, 0, 2, &library));
  EXPECT_EQ(bound.at, at + page);
  EXPECT_EQ(bound.bytes, page);
  bound = {};
  EXPECT_FALSE(keep_on_node(at + 1, page, 0, 2, &library));  // no whole page
  EXPECT_FALSE(keep_on_node(at, page, std::nullopt, 2, &library));
  EXPECT_FALSE(keep_on_node(at, page, 0, 1, &library));
  EXPECT_FALSE(keep_on_node(at, page, 0, 2, nullptr));
  EXPECT_EQ(bound.at, nullptr);
  (void)keep_on_node(at, page, 0);  // on this host, whatever it has
  at[0] = std::byte{1};
  ::munmap(at, 4 * page);
}

TEST(ServiceThread, KeepsMaskAndSignalsOfStarter) {
  const std::vector<int> before = own_cpus();
  std::vector<int> within;
  sigset_t blocked;
  start_service_thread("penstock-test", [&] {
    within = own_cpus();
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  }).join();
  EXPECT_EQ(own_cpus(), before);
  EXPECT_THAT(before, testing::IsSupersetOf(within));
  EXPECT_FALSE(within.empty());
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

/// The threads of a rank that is bound to one CPU stay on that CPU.
TEST(ServiceThread, InheritsBindingOfRank) {
  const std::vector<int> before = own_cpus();
  cpu_set_t mask, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(before.front()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  std::vector<int> within;
  start_service_thread("penstock-test", [&] { within = own_cpus(); }).join();
  EXPECT_EQ(within, std::vector<int>{before.front()});
  ASSERT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);
}

}  // namespace
}  // namespace penstock::base
