// SIGKILL between all stores of replacing a pool's tuning table. The next process finds the old
// table, none, or the complete new one, and can store another.
#include "coll/tuning_store.hpp"
#include "crash_test_base.hpp"

namespace penstock::crash {
namespace {

coll::Tuning table_of(std::uint64_t number) {
  coll::Tuning tuning;
  tuning.entries.resize(number + 1);
  for (auto& entry : tuning.entries) entry.min_bytes = number;
  return tuning;
}

class TuningCrash : public CrashTest {
 protected:
  void SetUp() override {
    create();
    store(1);
  }
  void store(std::uint64_t number) const {
    const Attached here = attach(spec_);
    const auto stored = coll::store_tuning(*here.arena, table_of(number));
    if (!stored) throw std::runtime_error(stored.error().message);
  }
  /// The number in the stored table; 0 if there is none.
  std::uint64_t found() const {
    const Attached here = attach(spec_);
    const auto tuning = coll::load_tuning(*here.arena);
    if (!tuning) throw std::runtime_error(tuning.error().message);
    if (!*tuning) return 0;
    const std::uint64_t number = (*tuning)->entries[0].min_bytes;
    EXPECT_EQ(**tuning, table_of(number));
    return number;
  }
};

TEST_F(TuningCrash, InReplacing) {
  survive_everywhere(
      "a tuning table", 100,
      [this](const auto& armed) {
        const Attached here = attach(spec_);
        armed();
        const auto stored = coll::store_tuning(*here.arena, table_of(2));
        if (!stored) throw std::runtime_error(stored.error().message);
      },
      [this] {
        EXPECT_LE(found(), 2u);
        store(1);
        EXPECT_EQ(found(), 1u);
      });
}

}  // namespace
}  // namespace penstock::crash
