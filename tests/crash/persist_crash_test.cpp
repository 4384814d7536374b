// SIGKILL between all stores of transactions, of their recovery and of checkpoints; and a writer
// that is stopped in a transaction. Objects are as one transaction left them, and no log stays.
#include <array>
#include <cstring>
#include <initializer_list>

#include "crash_test_base.hpp"
#include "persist/checkpoint.hpp"
#include "persist/reader.hpp"
#include "persist/recovery.hpp"
#include "persist/undo_log.hpp"

namespace penstock::crash {
namespace {

constexpr std::uint64_t words = 24;
using Words = std::array<std::uint64_t, words>;

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

class PersistCrash : public CrashTest, public testing::WithParamInterface<coherence::Mode> {
 protected:
  void SetUp() override {
    create(16 << 20, 16, GetParam());
    const Attached here = attach(spec_);
    for (const char* name : {"a", "b"})
      must(here.arena->create(name, sizeof(Words), {.lifetime = lifetime(here)}));
    must(persist::Checkpoint::create(*here.arena, "saved", sizeof(Words), lifetime(here)));
    change(1);
  }
  static arena::Lifetime lifetime(const Attached& at) { return persist::lifetime_in(*at.pool); }
  std::string mode() const { return std::string(coherence::mode_name(GetParam())); }

  static void store(const Attached& at, const arena::Object& object, std::uint64_t number) {
    Words all;
    all.fill(number);
    std::memcpy(object.data, all.data(), sizeof all);
    at.pool->memory().write_back(object.data, sizeof all);  // any part may arrive early
    at.pool->memory().store_fence();
  }
  /// Changes both objects in one transaction.
  static void change(const Attached& at, std::uint64_t number) { change(at, {"a", "b"}, number); }
  static void change(const Attached& at, std::initializer_list<const char*> names,
                     std::uint64_t number) {
    const auto log = must(persist::UndoLog::open(*at.arena, persist::UndoLog::min_bytes));
    must(log->begin());
    for (const char* name : names) {
      const auto object = must(at.arena->open(name));
      must(log->add(object, 0, sizeof(Words)));
      store(at, object, number);
    }
    must(log->commit());
  }
  void change(std::uint64_t number) const { change(attach(spec_), number); }

  static std::uint64_t read(const Attached& at, const char* name) {
    auto reader = must(persist::Reader::open(*at.arena, must(at.arena->open(name))));
    Words all{};
    must(reader.read(all.data(), 0, sizeof all));
    for (const std::uint64_t word : all) EXPECT_EQ(word, all[0]) << name << " is torn";
    return all[0];
  }
  /// The next process checks that the objects are consistent, and resets them.
  void expect_whole() const {
    const Attached here = attach(spec_);
    must(persist::recover(*here.arena));
    const std::uint64_t a = read(here, "a"), b = read(here, "b");
    EXPECT_EQ(a, b) << "half of a transaction is there";
    EXPECT_TRUE(a == 1 || a == 2) << a;
    change(here, 1);
  }
};

TEST_P(PersistCrash, InATransaction) {
  survive_everywhere(
      "transaction, " + mode(), 60,
      [this](const auto& armed) {
        const Attached at = attach(spec_);
        armed();
        change(at, 2);
      },
      [this] { expect_whole(); });
}

/// The recovering process dies too.
TEST_P(PersistCrash, InARecovery) {
  const auto leave_half_done = [this] {
    run_victim(1, [this](const auto& armed) {
      const Attached at = attach(spec_);
      const auto log = must(persist::UndoLog::open(*at.arena, persist::UndoLog::min_bytes));
      must(log->begin());
      for (const char* name : {"a", "b"}) {
        const auto object = must(at.arena->open(name));
        must(log->add(object, 0, sizeof(Words)));
        store(at, object, 2);
      }
      armed();
      must(log->commit());
    });
  };
  survive_everywhere(
      "recovery, " + mode(), 60,
      [&](const auto& armed) {
        leave_half_done();
        const Attached at = attach(spec_);
        armed();
        must(persist::recover(*at.arena));
        must(at.arena->collect());
      },
      [this] { expect_whole(); });
}

TEST_P(PersistCrash, InACheckpoint) {
  survive_everywhere(
      "checkpoint, " + mode(), 40,
      [this](const auto& armed) {
        const Attached at = attach(spec_);
        auto saved = must(persist::Checkpoint::open(*at.arena, "saved"));
        Words all;
        all.fill(must(saved.valid()).version + 1);
        armed();
        must(saved.begin());
        must(saved.write(0, all.data(), sizeof all));
        must(saved.commit(all[0]));
      },
      [this] {
        const Attached here = attach(spec_);
        const auto saved = must(persist::Checkpoint::open(*here.arena, "saved"));
        const auto valid = must(saved.valid());
        if (valid.version == 0) return;
        Words all{};
        must(saved.read(valid.version, all.data(), 0, sizeof all));
        EXPECT_EQ(valid.tag, valid.version);
        for (const std::uint64_t word : all) EXPECT_EQ(word, valid.version);
      });
}

/// The writer is checked under the pool's lock, and the version is freed after the object.
TEST_P(PersistCrash, InDestroyingWhatTransactionsChanged) {
  const auto make = [](const Attached& at, std::uint64_t number) {
    must(at.arena->create("doomed", sizeof(Words), {.lifetime = lifetime(at)}));
    change(at, {"doomed"}, number);
  };
  survive_everywhere(
      "destroy, " + mode(), 40,
      [&](const auto& armed) {
        const Attached at = attach(spec_);
        make(at, 3);
        const auto object = must(at.arena->open("doomed"));
        armed();
        must(persist::destroy(*at.arena, object));
      },
      [&] {
        const Attached here = attach(spec_);
        must(persist::collect(*here.arena));
        if (const auto left = here.arena->open("doomed")) {
          EXPECT_EQ(read(here, "doomed"), 3u);
          must(persist::destroy(*here.arena, *left));
        }
        make(here, 4);  // the new object must not inherit the old one's log
        EXPECT_EQ(read(here, "doomed"), 4u);
        must(persist::destroy(*here.arena, must(here.arena->open("doomed"))));
        EXPECT_FALSE(here.arena->open("doomed"));
        EXPECT_EQ(read(here, "a"), 1u);
      });
}

/// Processes on the same host wait for a stopped writer, since it is alive. They must not undo its
/// transaction, which continues later.
TEST_P(PersistCrash, AStoppedWriterKeepsItsObject) {
  pool::Child child([this](const pool::Child::Report& report) {
    const Attached at = attach(spec_);
    const auto log = must(persist::UndoLog::open(*at.arena, persist::UndoLog::min_bytes));
    must(log->begin());
    const auto object = must(at.arena->open("a"));
    must(log->add(object, 0, sizeof(Words)));
    ::raise(SIGSTOP);
    store(at, object, 2);
    must(log->commit());
    report(1);
    return 0;
  });
  ASSERT_TRUE(wait_until_stopped_or_ended(child));
  {
    const Attached here = attach(spec_);
    EXPECT_EQ(must(persist::recover(*here.arena)).logs, 0u);
    const auto log = must(persist::UndoLog::open(*here.arena, persist::UndoLog::min_bytes));
    must(log->begin());
    const auto refused = log->add(must(here.arena->open("a")), 0, 8);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("is written by"));
    auto reader = must(persist::Reader::open(*here.arena, must(here.arena->open("a"))));
    std::uint64_t word;
    EXPECT_EQ(reader.read(&word, 0, 8, 50'000'000).error().code, ErrorCode::deadline);
  }
  ::kill(child.pid(), SIGCONT);
  EXPECT_EQ(child.next_report(), 1u);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(read(attach(spec_), "a"), 2u);
}

INSTANTIATE_TEST_SUITE_P(Modes, PersistCrash,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& each) { return std::string(mode_name(each.param)); });

}  // namespace
}  // namespace penstock::crash
