// Pools in simulated mode, as far as they can be tested without a simulator.
#include "pool/node_caches.hpp"

#include <fstream>

#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

using testing::HasSubstr;

class NodeCachesTest : public PoolTest {
 protected:
  std::string make(const std::string& name) {
    const std::string path = folder_.file(name);
    std::ofstream(path) << "x";
    return path;
  }
  HostIdentity host() const { return this_host().value(); }
};

TEST_F(NodeCachesTest, ReportsMissingSimulator) {
  CreateOptions options = create_options();
  options.mode = coherence::Mode::simulated;
  ASSERT_TRUE(pool::create(options));
  const Error error = attach_error();
  EXPECT_EQ(error.code, ErrorCode::unavailable);
  EXPECT_THAT(error.message,
              HasSubstr("in simulated mode, and this program was built without the simulator"));
  EXPECT_THAT(error.message, HasSubstr("-DPENSTOCK_SIMULATOR=ON"));
  EXPECT_EQ(folder_.entries(), 1u);
}

TEST_F(NodeCachesTest, NamesDistinguishPoolHostAndNode) {
  const std::string path = node_cache_path(spec_, 7, host(), 1);
  EXPECT_TRUE(path.starts_with(spec_ + ".node1.0000000000000007.")) << path;
  HostIdentity other = host();
  other.boot_id[0] ^= 1;
  EXPECT_NE(path, node_cache_path(spec_, 7, other, 1));
  const std::string of_device = node_cache_path("/dev/dax0.0", 7, host(), 1);
  EXPECT_TRUE(of_device.starts_with("/dev/shm/penstock.dax0.0.node1.")) << of_device;
}

TEST_F(NodeCachesTest, RemovesNothingElse) {
  const std::string good = "pool.node1.0123456789abcdef.01234567.cache";
  const std::string others[] = {"pool.node1.cache",
                                "pool.node.0123456789abcdef.01234567.cache",
                                "pool.node1.0123456789abcdeX.01234567.cache",
                                "pool.node1.0123456789abcdef.01234567.cache2",
                                "pool.node1.0123456789abcdef.0123456.cache",
                                "pool.nodes",
                                "pool2.node1.0123456789abcdef.01234567.cache",
                                "pool"};
  make(good);
  for (const std::string& name : others) make(name);
  remove_node_caches(spec_, 0);
  EXPECT_EQ(folder_.entries(), std::size(others));
  for (const std::string& name : others) {
    EXPECT_TRUE(std::filesystem::exists(folder_.file(name))) << name;
  }
}

TEST_F(NodeCachesTest, KeepsCachesOfExistingPool) {
  const std::string old_one = node_cache_path(spec_, 5, host(), 0);
  const std::string new_one = node_cache_path(spec_, 6, host(), 0);
  for (const std::string& path : {old_one, new_one}) std::ofstream(path) << "x";
  remove_node_caches(spec_, 6);
  EXPECT_FALSE(std::filesystem::exists(old_one));
  EXPECT_TRUE(std::filesystem::exists(new_one));
}

}  // namespace
}  // namespace penstock::pool
