// SIGKILL between all stores of creating and destroying objects, the pool's lock included.
#include "crash_test_base.hpp"

namespace penstock::crash {
namespace {

class ArenaCrash : public CrashTest {
 protected:
  void SetUp() override {
    create();
    const Attached here = attach(spec_);
    for (const char* name : {"a", "b", "c", "d", "e"}) ASSERT_TRUE(here.arena->create(name, 3000));
    for (const char* name : {"b", "d"}) {
      ASSERT_TRUE(here.arena->destroy(*here.arena->open(name)));
    }
  }
  /// Checks that the object is complete or absent, and destroys it if it exists.
  void expect_whole_or_absent(const char* name, std::uint64_t bytes) {
    const Attached here = attach(spec_);
    const auto found = here.arena->open(name);
    if (!found) return;
    EXPECT_EQ(found->bytes, bytes);
    EXPECT_TRUE(here.arena->destroy(*found));
  }
};

TEST_F(ArenaCrash, InCreating) {
  survive_everywhere(
      "arena create", 100,
      [this](const auto& armed) {
        const Attached here = attach(spec_);
        armed();
        if (!here.arena->create("new", 5000)) throw std::runtime_error("not created");
      },
      [this] { expect_whole_or_absent("new", 5000); });
}

TEST_F(ArenaCrash, InCreatingWhatDiesWithItsOwner) {
  survive_everywhere(
      "arena create (process lifetime)", 100,
      [this](const auto& armed) {
        Attached here = attach(spec_);
        armed();
        if (!here.arena->create("own", 5000, {.lifetime = arena::Lifetime::process})) {
          throw std::runtime_error("not created");
        }
        here.detach();
      },
      [this] { EXPECT_FALSE(attach(spec_).arena->open("own")); });
}

TEST_F(ArenaCrash, InDestroying) {
  survive_everywhere(
      "arena destroy", 100,
      [this](const auto& armed) {
        const Attached here = attach(spec_);
        const auto object = here.arena->create("goes", 2000);
        if (!object) throw std::runtime_error("not created");
        armed();
        if (!here.arena->destroy(*object)) throw std::runtime_error("not destroyed");
      },
      [this] { expect_whole_or_absent("goes", 2000); });
}

/// A large object is zeroed outside the lock, because that may take minutes.
TEST_F(ArenaCrash, InCreatingALargeObject) {
  pool::TestFolder folder;
  spec_ = folder.file("pool");
  create(64 << 20);
  survive_everywhere(
      "arena create (20 MiB)", 20,
      [this](const auto& armed) {
        const Attached here = attach(spec_);
        armed();
        if (!here.arena->create("large", 20 << 20)) throw std::runtime_error("not created");
      },
      [this] { expect_whole_or_absent("large", 20 << 20); });
}

}  // namespace
}  // namespace penstock::crash
