// SIGKILL between all stores of a window's epochs: while a rank holds a segment's lock, updates,
// puts, or announces that its own segment is open. The survivor gets the lock, finds each word old
// or new, and gets an error that names the dead rank instead of waiting for it.
#include "crash_test_base.hpp"
#include "window/window.hpp"

namespace penstock::crash {
namespace {

using window::Extent;
using window::Window;

constexpr std::uint64_t segment_bytes = 8192;
constexpr std::uint64_t room_of_rank = 8192;  ///< for a rank's words and those that it allocates
constexpr Extent counter{16, 8}, cell{4096, 8};
constexpr std::uint32_t survivor = 0, victim = 1;
constexpr std::uint64_t put_value = 0x1122334455667788, updates = 3;

bool add_one(std::byte* packed) {
  std::uint64_t value;
  std::memcpy(&value, packed, sizeof value);
  ++value;
  std::memcpy(packed, &value, sizeof value);
  return true;
}

void require(const Result<void>& done) {
  if (!done) throw std::runtime_error(done.error().message);
}

class WindowCrash : public CrashTest, public testing::WithParamInterface<coherence::Mode> {
 protected:
  void SetUp() override {
    create(16 << 20, 16, GetParam());
    // Without a job, since the objects of a dead rank stay as long as its job has living ranks.
    here_ = attach(spec_, {.rank = 0, .emulated_node = 0});
    for (auto* object : {&own_, &others_})
      *object = *here_.arena->create("segment " + std::to_string(made_++), segment_bytes);
    area_ = *here_.arena->create("area", 2 * room_of_rank);
    token_ = *here_.arena->create("token of the victim", 64);
  }

  Result<std::unique_ptr<Window>> open(pool::Pool& pool, std::uint32_t self,
                                       std::uint64_t victims_token) const {
    window::Options options;
    options.members = {{.token = here_.pool->token(),
                        .offset = own_.offset,
                        .bytes = segment_bytes,
                        .words = words_of(survivor),
                        .node = pool.node()},
                       {.token = victims_token,
                        .offset = others_.offset,
                        .bytes = segment_bytes,
                        .words = words_of(victim),
                        .node = pool.node()}};
    options.self = self;
    options.more = [next = words_of(self) + window::words_bytes(), end = words_of(self + 1)](
                       std::uint64_t bytes) mutable -> Result<std::uint64_t> {
      if (bytes > end - next) return fail(ErrorCode::no_space, "a rank's room is too small");
      next += bytes;
      return next - bytes;
    };
    return Window::open(pool, std::move(options));
  }
  /// Offset of a rank's words. They are zero, as if the rank had cleared them.
  std::uint64_t words_of(std::uint32_t rank) const { return area_.offset + rank * room_of_rank; }

  /// Makes all operations that need no other process, so that the victim dies or finishes alone.
  void die_somewhere(const std::function<void()>& armed) const {
    const Attached at = attach(spec_, {.rank = 1, .job = "crash", .emulated_node = 0});
    const auto told = at.arena->open("token of the victim");
    at.pool->memory().publish_word(told->data, at.pool->token());
    at.pool->memory().full_fence();
    const auto opened = open(*at.pool, victim, at.pool->token());
    if (!opened) throw std::runtime_error(opened.error().message);
    Window& window = **opened;
    armed();
    require(window.lock(survivor, sync::Hold::exclusive));
    require(window.put(survivor, {&cell, 1}, &put_value));
    require(window.update(survivor, {&counter, 1}, add_one));
    require(window.unlock(survivor));
    require(window.lock(survivor, sync::Hold::shared));
    require(window.update(survivor, {&counter, 1}, add_one));
    require(window.unlock(survivor));
    require(window.lock_all());
    require(window.update(survivor, {&counter, 1}, add_one));
    require(window.flush_all());
    require(window.unlock_all());
    const std::uint32_t group[] = {survivor};
    require(window.post(group));
  }

  void clear() {
    const auto& memory = here_.pool->memory();
    const std::vector<std::byte> zeros(std::max<std::uint64_t>(area_.bytes, segment_bytes));
    for (const auto* object : {&own_, &others_, &area_, &token_})
      memory.publish_bulk(object->data, zeros.data(), object->bytes);
    memory.full_fence();
  }

  void survive() {
    const std::uint64_t token = here_.pool->memory().observe_word(token_.data);
    if (token == 0) return;
    auto opened = open(*here_.pool, survivor, token);
    ASSERT_TRUE(opened) << opened.error().message;
    Window& window = **opened;
    // The survivor gets the lock even if the dead rank held it or waited for it.
    ASSERT_TRUE(window.lock(survivor, sync::Hold::exclusive));
    std::uint64_t count = 0, value = 0;
    ASSERT_TRUE(window.get(survivor, {&counter, 1}, &count));
    ASSERT_TRUE(window.get(survivor, {&cell, 1}, &value));
    EXPECT_LE(count, updates);
    EXPECT_TRUE(value == 0 || value == put_value) << value;
    ASSERT_TRUE(window.unlock(survivor));
    ASSERT_TRUE(window.lock(survivor, sync::Hold::shared));
    ASSERT_TRUE(window.update(survivor, {&counter, 1}, add_one));
    ASSERT_TRUE(window.unlock(survivor));
    const std::uint32_t group[] = {victim};
    const auto started = window.start(group);
    if (started) {
      EXPECT_TRUE(window.complete());  // the victim had done its last operation
    } else {
      EXPECT_EQ(started.error().code, ErrorCode::peer_dead);
      EXPECT_THAT(started.error().message, testing::HasSubstr("rank 1"));
    }
    const auto fenced = window.fence();
    ASSERT_FALSE(fenced);
    EXPECT_EQ(fenced.error().code, ErrorCode::peer_dead) << fenced.error().message;
    const auto locked = window.lock(victim, sync::Hold::shared);
    ASSERT_FALSE(locked);
    EXPECT_EQ(locked.error().code, ErrorCode::peer_dead) << locked.error().message;
    clear();
  }

  Attached here_;
  arena::Object own_, others_, area_, token_;
  int made_ = 0;
};

TEST_P(WindowCrash, InEpochsOfAllKinds) {
  survive_everywhere(
      "window, " + std::string(mode_name(GetParam())), 40,
      [&](const auto& armed) { die_somewhere(armed); }, [&] { survive(); });
}

INSTANTIATE_TEST_SUITE_P(Modes, WindowCrash,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::crash
