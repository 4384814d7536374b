// Devices in made-up trees: sysfs as the kernel writes it, and damaged.
#include "devices.hpp"

#include <sys/wait.h>

#include "base/fork_in_tests.hpp"
#include "pool/pool.hpp"
#include "test_tree.hpp"

namespace penstock::tools {
namespace {

constexpr unsigned nobody = 65534;

class Devices : public ::testing::Test {
 protected:
  void dax(const std::string& name, const std::string& size, const std::string& align,
           const std::string& driver, const std::string& node = "1\n") {
    const std::string folder = "/sys/bus/dax/devices/" + name;
    tree_.write(folder + "/size", size);
    tree_.write(folder + "/align", align);
    tree_.write(folder + "/target_node", node);
    if (!driver.empty()) tree_.link(folder + "/driver", "/sys/bus/dax/drivers/" + driver);
    tree_.write("/dev/" + name, "");
  }
  void cxl(const std::string& file, const std::string& text) {
    tree_.write("/sys/bus/cxl/devices/" + file, text);
  }
  void memory(const std::string& name) {
    cxl(name + "/ram/size", "0x40000000\n");
    cxl(name + "/pmem/size", "0x0\n");
  }
  Findings found() {
    Findings findings;
    check_devices(findings, tree_.roots);
    return findings;
  }

  TestTree tree_;
};

TEST_F(Devices, None) {
  EXPECT_TRUE(says(only(found()), Verdict::ok, {"devdax devices: none"}));
}

TEST_F(Devices, OneDevdax) {
  dax("dax0.0", "17179869184\n", "2097152\n", "device_dax");
  EXPECT_TRUE(says(only(found()), Verdict::ok,
                   {"/dev/dax0.0: 16 GiB, alignment 2.0 MiB, NUMA node 1, devdax", "no pool"}));
}

TEST_F(Devices, NoNumaNode) {
  dax("dax0.0", "1073741824\n", "2097152\n", "device_dax", "-1\n");
  const Finding finding = only(found());
  EXPECT_TRUE(says(finding, Verdict::ok, {"devdax"}));
  EXPECT_EQ(finding.what.find("NUMA"), std::string::npos);
}

TEST_F(Devices, NextToTheCpusOrNot) {
  const auto near = [&](const std::vector<int>& cpus) {
    Findings findings;
    check_nearness(findings, tree_.roots, cpus);
    return findings;
  };
  dax("dax0.0", "1073741824\n", "2097152\n", "device_dax");
  tree_.write("/sys/bus/dax/devices/dax0.0/numa_node", "1\n");
  tree_.write("/sys/devices/system/node/node0/cpulist", "0-3\n");
  EXPECT_TRUE(near({0, 1}).all().empty());  // there is only one node
  tree_.write("/sys/devices/system/node/node1/cpulist", "4-7\n");
  EXPECT_TRUE(says(only(near({0, 1})), Verdict::warn,
                   {"/dev/dax0.0 is next to NUMA node 1 of 2, which has 4 CPUs",
                    "of the 2 CPUs that a process started here may use, 0 are on it",
                    "numactl --cpunodebind=1 --localalloc COMMAND"}));
  EXPECT_TRUE(says(only(near({3, 4})), Verdict::ok, {"1 are on it", "numactl --cpunodebind=1"}));
  const Finding bound = only(near({4, 5}));
  EXPECT_TRUE(says(bound, Verdict::ok, {"2 are on it"}));
  EXPECT_EQ(bound.what.find("numactl"), std::string::npos);
  tree_.write("/sys/bus/dax/devices/dax0.0/numa_node", "-1\n");
  EXPECT_TRUE(near({0, 1}).all().empty());  // the kernel does not say
  tree_.write("/sys/bus/dax/devices/dax0.0/numa_node", "5\n");
  EXPECT_TRUE(near({0, 1}).all().empty());  // the node has no CPUs
}

TEST_F(Devices, FindsItsPoolAndUsers) {
  dax("dax0.0", "33554432\n", "2097152\n", "device_dax");
  std::filesystem::remove(tree_.roots.dev + "/dax0.0");
  ASSERT_TRUE(pool::create({.spec = tree_.roots.dev + "/dax0.0", .bytes = 32 << 20}));
  tree_.write("/proc/77/comm", "python3\n");
  tree_.write("/proc/77/maps",
              "7f00-7f01 rw-s 00000000 00:05 9   " + tree_.roots.dev + "/dax0.0\n");
  tree_.write("/proc/78/comm", "other\n");
  std::filesystem::create_directories(tree_.roots.proc + "/79/fd");
  tree_.write("/proc/79/comm", "reader\n");
  std::filesystem::create_symlink(tree_.roots.dev + "/dax0.0", tree_.roots.proc + "/79/fd/3");
  EXPECT_TRUE(says(only(found()), Verdict::ok,
                   {"pool of 32 MiB in software mode, open by pid 77 (python3), pid 79 (reader)"}));
}

TEST_F(Devices, SystemRam) {
  dax("dax0.0", "1073741824\n", "2097152\n", "kmem");
  EXPECT_TRUE(says(only(found()), Verdict::fail,
                   {"system-ram", "daxctl offline-memory dax0.0",
                    "daxctl reconfigure-device --mode=devdax --force dax0.0"}));
}

TEST_F(Devices, NoDriver) {
  dax("dax0.0", "1073741824\n", "2097152\n", "");
  EXPECT_TRUE(says(only(found()), Verdict::fail, {"no driver", "daxctl enable-device dax0.0"}));
}

TEST_F(Devices, SizeThatIsNotAligned) {
  dax("dax0.0", "1073745920\n", "2097152\n", "device_dax");
  EXPECT_TRUE(says(only(found()), Verdict::fail, {"not a multiple of its alignment", "daxctl"}));
}

TEST_F(Devices, DamagedFiles) {
  for (const char* text : {"", "\n", "huge\n", "12x\n", "99999999999999999999999\n", "-1\n"}) {
    dax("dax0.0", text, "2097152\n", "");
    std::filesystem::remove(tree_.folder() + "/sys/bus/dax/devices/dax0.0/driver");
    tree_.link("/sys/bus/dax/devices/dax0.0/driver", "/sys/bus/dax/drivers/device_dax");
    EXPECT_TRUE(says(only(found()), Verdict::fail, {"unreadable", "damaged"})) << text;
  }
}

TEST_F(Devices, NoDeviceFile) {
  dax("dax0.0", "1073741824\n", "2097152\n", "device_dax");
  std::filesystem::remove(tree_.roots.dev + "/dax0.0");
  EXPECT_TRUE(says(only(found()), Verdict::fail, {"absent", "udevadm"}));
}

TEST_F(Devices, NotPermitted) {
  dax("dax0.0", "1073741824\n", "2097152\n", "device_dax");
  ASSERT_EQ(::chmod((tree_.roots.dev + "/dax0.0").c_str(), 0), 0);
  ASSERT_EQ(::chmod(tree_.folder().c_str(), 0755), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(nobody) != 0) _exit(2);
    const Findings findings = found();
    const bool right = static_cast<bool>(
        says(only(findings), Verdict::fail, {" 0000: not readable", "chmod 0660"}));
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Devices, CxlMemoryWithoutARegion) {
  memory("mem0");
  cxl("decoder0.0/create_ram_region", "region0\n");
  cxl("decoder0.1/create_pmem_region", "region0\n");
  EXPECT_TRUE(says(only(found()), Verdict::warn,
                   {"CXL memory mem0: 1.0 GiB volatile, 0 B persistent, in no region",
                    "cxl create-region -m -t ram -d decoder0.0 -w 1 mem0",
                    "daxctl reconfigure-device --mode=devdax"}));
}

TEST_F(Devices, SeveralWindows) {
  memory("mem0");
  cxl("mem0/serial", "0x1234\n");
  cxl("decoder0.0/create_ram_region", "region0\n");
  cxl("decoder0.1/create_ram_region", "region0\n");
  EXPECT_TRUE(
      says(only(found()), Verdict::warn,
           {"CXL memory mem0, serial number 0x1234: 1.0 GiB", "/lib/penstock/devdax up 0x1234",
            "-d DECODER -w 1 mem0", "the one of decoder0.0, decoder0.1 that leads to mem0"}));
}

TEST_F(Devices, CxlMemoryWithoutAWindow) {
  memory("mem0");
  EXPECT_TRUE(says(only(found()), Verdict::warn, {"no window", "cxl list -D"}));
}

TEST_F(Devices, CxlMemoryInARegion) {
  memory("mem0");
  tree_.link("/sys/bus/cxl/devices/endpoint2/uport", "/sys/devices/pci/mem0");
  cxl("decoder2.0/region", "region0\n");
  cxl("decoder3.0/region", "region1\n");
  EXPECT_TRUE(says(only(found()), Verdict::ok, {"mem0", "in region0"}));
}

TEST_F(Devices, DamagedCxlMemory) {
  cxl("mem0/ram/size", "what\n");
  cxl("endpoint2/uport", "no link\n");
  cxl("decoder2.0/region", "\n");
  EXPECT_TRUE(says(only(found()), Verdict::warn, {"unreadable volatile, unreadable persistent"}));
}

}  // namespace
}  // namespace penstock::tools
