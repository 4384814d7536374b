// Nodes, caches, mounts and classes in made-up trees, written as the kernel writes them.
#include "bench/stream/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/stream/classes.hpp"

namespace penstock::bench::stream {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class StreamTopology : public testing::Test {
 protected:
  StreamTopology() {
    std::string name = (fs::temp_directory_path() / "penstock-stream-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    roots_ = {.sys = folder_ + "/sys", .proc = folder_ + "/proc"};
  }
  ~StreamTopology() override { fs::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << text << "\n";
  }
  void link(const std::string& path, const std::string& to) {
    fs::create_directories(folder_ + to);
    fs::create_directories(fs::path(folder_ + path).parent_path());
    fs::create_symlink(folder_ + to, folder_ + path);
  }
  void node(int number, const std::string& cpus, unsigned megabytes, const std::string& distances) {
    const std::string own = "/sys/devices/system/node/node" + std::to_string(number);
    const std::string head = "Node " + std::to_string(number) + " ";
    write(own + "/cpulist", cpus);
    write(own + "/distance", distances);
    write(own + "/meminfo", head + "MemTotal:  " + std::to_string(megabytes << 10) + " kB\n" +
                                head + "MemFree:   " + std::to_string(megabytes << 9) + " kB\n" +
                                head + "Active(file):  1024 kB\n" + head +
                                "Inactive(file):  1024 kB");
  }
  void cpu(int number, const std::string& siblings, const std::string& shared) {
    const std::string own = "/sys/devices/system/cpu/cpu" + std::to_string(number);
    write(own + "/topology/thread_siblings_list", siblings);
    write(own + "/cache/index0/level", "1");
    write(own + "/cache/index0/size", "48K");
    write(own + "/cache/index0/shared_cpu_list", siblings);
    write(own + "/cache/index3/level", "3");
    write(own + "/cache/index3/size", "32768K");
    write(own + "/cache/index3/shared_cpu_list", shared);
  }
  /// Two sockets of two cores with two threads each, a node of CXL memory, persistent memory by
  /// memmap near socket 0, and persistent memory on CXL.
  void paper() {
    write("/sys/devices/system/node/online", "0-2");
    node(0, "0-1,4-5", 1000, "10 21 14");
    node(1, "2-3,6-7", 1000, "21 10 24");
    node(2, "", 500, "14 24 10");
    for (int i = 0; i < 4; ++i) {
      const std::string siblings = std::to_string(i) + "," + std::to_string(i + 4);
      cpu(i, siblings, i < 2 ? "0-1,4-5" : "2-3,6-7");
      cpu(i + 4, siblings, i < 2 ? "0-1,4-5" : "2-3,6-7");
    }
    const std::string dax = "/sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax0.0";
    write(dax + "/target_node", "2");
    link(dax + "/driver", "/sys/bus/dax/drivers/kmem");
    link("/sys/bus/dax/devices/dax0.0", dax);
    const std::string near = "/sys/devices/platform/e820_pmem/ndbus0/region0";
    write(near + "/namespace0.0/numa_node", "0");
    link("/sys/class/block/pmem0", near + "/namespace0.0/block/pmem0");
    const std::string far = "/sys/devices/platform/ACPI0017:00/root0/nvdimm-bridge0/ndbus1/region1";
    write(far + "/target_node", "3");
    link("/sys/class/block/pmem1", far + "/pfn1.0/block/pmem1");
    write("/proc/mounts",
          "proc /proc proc rw 0 0\n/dev/pmem0 /mnt/near ext4 rw,dax=always 0 0\n"
          "/dev/pmem1 /mnt/far ext4 rw,relatime,dax=always 0 0\n"
          "/dev/pmem2 /mnt/no ext4 rw,dax=never 0 0\n/dev/sda1 / ext4 rw 0 0");
  }
  Topology read() {
    auto topology = read_topology(roots_);
    EXPECT_TRUE(topology) << topology.error().message;
    return topology ? *topology : Topology{};
  }

  std::string folder_;
  Roots roots_;
};

std::vector<std::string> groups_of(const Plan& plan) {
  std::vector<std::string> groups;
  for (const Series& series : plan.series)
    if (std::find(groups.begin(), groups.end(), series.group) == groups.end())
      groups.push_back(series.group);
  return groups;
}

const Series* find(const Plan& plan, const std::string& name) {
  for (const Series& series : plan.series)
    if (series.name == name) return &series;
  return nullptr;
}

std::string names_of(const Plan& plan) {
  std::string names;
  for (const Series& series : plan.series) names += series.group + ": " + series.name + "\n";
  return names;
}

const std::vector<int> all_cpus = {0, 1, 2, 3, 4, 5, 6, 7};

TEST_F(StreamTopology, NothingToReadIsAnError) {
  const auto none = read_topology(roots_);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("names neither NUMA nodes nor CPUs"));
}

TEST_F(StreamTopology, AKernelWithoutNumaHasOneNode) {
  write("/sys/devices/system/cpu/online", "0-3");
  write("/proc/meminfo", "MemTotal: 2048 kB\nMemFree: 1024 kB");
  const Topology topology = read();
  ASSERT_EQ(topology.nodes.size(), 1u);
  EXPECT_THAT(topology.nodes[0].cpus, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(topology.nodes[0].bytes, 2u << 20);
  EXPECT_EQ(topology.nodes[0].free, 1u << 20);
  EXPECT_FALSE(topology.last_level_bytes({0})) << "no cache is told of";
}

TEST_F(StreamTopology, NodesAsThePaperHasThem) {
  paper();
  const Topology topology = read();
  ASSERT_EQ(topology.nodes.size(), 3u);
  EXPECT_THAT(topology.nodes[0].cpus, ElementsAre(0, 1, 4, 5))
      << "cores first, then their siblings";
  EXPECT_THAT(topology.nodes[2].cpus, IsEmpty());
  EXPECT_THAT(topology.nodes[0].distances, ElementsAre(10, 21, 14));
  EXPECT_EQ(topology.nodes[0].memory, "DRAM");
  EXPECT_EQ(topology.nodes[2].memory, "CXL (dax0.0 in system-ram)");
  EXPECT_EQ(topology.nodes[0].bytes, 1000u << 20);
  EXPECT_EQ(topology.nodes[0].free, 502u << 20);
  EXPECT_EQ(topology.sockets().size(), 2u);
  EXPECT_EQ(topology.memories().size(), 3u);
}

TEST_F(StreamTopology, CachesAreCountedOnce) {
  paper();
  const Topology topology = read();
  EXPECT_EQ(topology.last_level_bytes({0, 1, 4}), 32u << 20);
  EXPECT_EQ(topology.last_level_bytes({1, 2}), 64u << 20);
}

TEST_F(StreamTopology, MountsWithDaxAndTheirNodes) {
  paper();
  const Topology topology = read();
  ASSERT_EQ(topology.mounts.size(), 2u);
  EXPECT_EQ(topology.mounts[0].folder, "/mnt/near");
  EXPECT_EQ(topology.mounts[0].node, 0);
  EXPECT_FALSE(topology.mounts[0].cxl);
  EXPECT_EQ(topology.mounts[1].device, "pmem1");
  EXPECT_EQ(topology.mounts[1].node, 3);
  EXPECT_TRUE(topology.mounts[1].cxl);
}

TEST_F(StreamTopology, OrdersCpusByAffinity) {
  paper();
  const Topology topology = read();
  EXPECT_THAT(order_of(topology, all_cpus, Affinity::close), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_THAT(order_of(topology, all_cpus, Affinity::spread), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(order_of(topology, {7, 0, 1}, Affinity::spread), ElementsAre(0, 7, 1));
}

TEST_F(StreamTopology, EveryClassOfThePaper) {
  paper();
  const Plan plan = classes_of(read(), all_cpus, {});
  EXPECT_THAT(groups_of(plan), ElementsAre("1a", "1b", "1c", "local", "2a", "2b", "pool"))
      << names_of(plan);
  EXPECT_THAT(plan.absent, IsEmpty());
  const Series* far = find(plan, "S1 -> numa:2, plain (CXL (dax0.0 in system-ram))");
  ASSERT_NE(far, nullptr) << names_of(plan);
  EXPECT_EQ(far->group, "2a");
  EXPECT_TRUE(far->far);
  EXPECT_THAT(far->cpus, ElementsAre(2, 3, 6, 7));
  const Series* own = find(plan, "S0 -> pmem, hoisted (pmem0, node 0)");
  ASSERT_NE(own, nullptr) << names_of(plan);
  EXPECT_EQ(own->group, "1a");
  EXPECT_EQ(own->target.place, "/mnt/near");
  const Series* cxl = find(plan, "S0 -> pmem+tx (pmem1, CXL)");
  ASSERT_NE(cxl, nullptr) << names_of(plan);
  EXPECT_EQ(cxl->group, "1b");
  const Series* spread = find(plan, "all -> pmem+persist (pmem1, CXL), spread");
  ASSERT_NE(spread, nullptr) << names_of(plan);
  EXPECT_THAT(spread->cpus, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

TEST_F(StreamTopology, OnlyTheClassesThatAreNamed) {
  paper();
  Plan plan = classes_of(read(), {0, 1}, {});
  keep_classes(plan, {"1a", "1c"});
  EXPECT_THAT(groups_of(plan), ElementsAre("1a"));
  EXPECT_EQ(plan.absent.size(), 1u) << "why there is no 1c";
}

TEST_F(StreamTopology, WhatIsAbsentHasItsReason) {
  write("/sys/devices/system/node/online", "0");
  node(0, "0-1", 1000, "10");
  write("/sys/bus/dax/devices/dax1.0/target_node", "1");
  const Plan plan = classes_of(read(), {0, 1}, {});
  EXPECT_THAT(groups_of(plan), ElementsAre("local", "pool"));
  std::string absent;
  for (const Absent& each : plan.absent) absent += each.what + ": " + each.why + "\n";
  for (const char* said :
       {"1a: a socket and its own persistent memory: no file system is mounted with dax",
        "1b: a socket", "1c: all sockets", "2a: a socket and the memory of another NUMA node: one",
        "dax1.0 could be one: daxctl reconfigure-device --mode=system-ram dax1.0",
        "2b: all sockets and the memory of each node: the CPUs to be used lie on one NUMA node"})
    EXPECT_THAT(absent, HasSubstr(said));
}

TEST_F(StreamTopology, OnlyCpusThatMayBeUsedCount) {
  paper();
  const Plan plan = classes_of(read(), {2, 3}, {});
  EXPECT_THAT(groups_of(plan), Not(Contains("2b"))) << "one socket is left";
  EXPECT_THAT(plan.absent, Contains(Field(&Absent::why, HasSubstr("(of 2 with CPUs)"))));
  const Plan none = classes_of(read(), {99}, {});
  EXPECT_THAT(none.series, IsEmpty());
  EXPECT_EQ(none.absent.size(), 1u);
}

}  // namespace
}  // namespace penstock::bench::stream
