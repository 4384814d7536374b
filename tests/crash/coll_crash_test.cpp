// SIGKILL between all stores of a rank that publishes for a collective: eager, by slots, in several
// chunks, with the reports on itself and its calls, and while it leaves. The survivor gets complete
// data or an error that names the dead rank; never a mixture.
#include "coll/communicator.hpp"
#include "coll/layout.hpp"
#include "crash_test_base.hpp"

namespace penstock::crash {
namespace {

using coll::Communicator;

/// The shape for several devices: each holds a part of the area.
constexpr coll::Shape shape_on(std::uint32_t devices) {
  return {.slots = 4,
          .slot_bytes = 512,
          .eager_blocks = 4,
          .eager_bytes = 4 * 56,
          .devices = devices,
          .area_slots = 7};
}
constexpr std::uint32_t survivor = 0, victim = 1;
/// Broadcasts that need no acknowledgement: each half of the slots and each block is used once.
constexpr std::uint64_t sizes[] = {100, 2000, 500, 224};
constexpr std::uint64_t memory_bytes = 2048;  ///< the victim's buffer for each call

class CollCrash
    : public CrashTest,
      public testing::WithParamInterface<std::tuple<coherence::Mode, bool, std::uint32_t>> {
 protected:
  static coherence::Mode mode() { return std::get<0>(GetParam()); }
  const coll::Shape shape = shape_on(std::get<2>(GetParam()));
  static bool checked() { return std::get<1>(GetParam()); }  ///< ranks compare each call first

  void SetUp() override {
    create(16 << 20, 16, mode());
    here_ = attach(spec_, {.rank = 0, .emulated_node = 0});
    std::uint64_t bytes = Communicator::bytes(2, shape);
    for (const auto& area : Communicator::slot_areas(2, shape)) bytes += area.bytes;
    area_ = *here_.arena->create("communicator", bytes);
    token_ = *here_.arena->create("token of the victim", 64);
    memory_ = *here_.arena->create("memory of the victim", std::size(sizes) * memory_bytes);
  }

  /// Number of calls. With zero copy the producer waits until its data have been read, so there are
  /// fewer.
  std::size_t calls() const { return zero_copy_ ? 2 : std::size(sizes); }
  /// Makes calls until the first error; returns how many succeeded. `memory`: the root's data, if
  /// they lie in the pool.
  std::size_t call_all(Communicator& comm, std::string* error, std::byte* memory = nullptr) const {
    for (std::size_t i = 0; i < calls(); ++i) {
      const bool root = comm.self() == victim;
      const std::byte wanted{static_cast<unsigned char>(i + 1)};
      std::vector<std::byte> data(sizes[i], root ? wanted : std::byte{});
      coll::Problem problem{.collective = coll::Collective::broadcast,
                            .ranks = 2,
                            .rank = comm.self(),
                            .root = victim,
                            .max_block_bytes = sizes[i]};
      (root ? problem.input : problem.output) = {{0, sizes[i]}};
      std::byte* const there = memory != nullptr ? memory + i * memory_bytes : data.data();
      if (there != data.data()) std::memcpy(there, data.data(), sizes[i]);
      const auto done = comm.run({.name = "broadcast",
                                  .problem = &problem,
                                  .plan = comm.plan(problem),
                                  .input = there,
                                  .output = data.data()});
      if (!done) {
        *error = done.error().message;
        return i;
      }
      for (const std::byte byte : data) EXPECT_EQ(byte, wanted);
    }
    return calls();
  }

  coll::Options options(std::uint64_t survivors, std::uint64_t victims, std::uint32_t self) const {
    coll::Options options{.area = area_.offset,
                          .tokens = {survivors, victims},
                          .self = self,
                          .shape = shape,
                          .check = checked(),
                          .zero_copy_bytes = 1};
    std::uint64_t at = area_.offset + Communicator::bytes(2, shape);
    for (const auto& area : Communicator::slot_areas(2, shape)) {
      options.slot_areas.push_back(at);
      at += area.bytes;
    }
    return options;
  }

  /// Marks the survivor as far ahead, so that the comparison of calls does not wait for it.
  void go_ahead() const { say_far_ahead(*here_.pool, coll::Layout(2, shape).call(survivor)); }
  void say_far_ahead(const pool::Pool& pool, std::uint64_t at) const {
    pool.memory().publish_word(pool.base() + area_.offset + at, coll::word_of(1 << 20, 0));
    pool.memory().full_fence();
  }

  void die_somewhere(const std::function<void()>& armed) const {
    const Attached at = attach(spec_, {.rank = 1, .job = "crash", .emulated_node = 1});
    const auto told = at.arena->open("token of the victim");
    at.pool->memory().publish_word(told->data, at.pool->token());
    at.pool->memory().full_fence();
    const auto comm =
        Communicator::open(*at.pool, options(here_.pool->token(), at.pool->token(), victim));
    if (!comm) throw std::runtime_error(comm.error().message);
    // Also marks all lent memory as released, so that the victim does not wait for that. Opening
    // the communicator has cleared earlier releases.
    say_far_ahead(*at.pool, coll::Layout(2, shape).release(victim, survivor));
    std::byte* const memory = zero_copy_ ? at.arena->open("memory of the victim")->data : nullptr;
    armed();
    std::string error;
    if (call_all(**comm, &error, memory) != calls()) throw std::runtime_error(error);
    (*comm)->leave();
  }

  void survive() {
    const std::uint64_t token = here_.pool->memory().observe_word(token_.data);
    if (token == 0) return go_ahead();
    const auto comm =
        *Communicator::open(*here_.pool, options(here_.pool->token(), token, survivor));
    std::string error;
    if (call_all(*comm, &error) != calls()) {
      EXPECT_THAT(error, testing::HasSubstr("rank 1"));
      std::string again;
      EXPECT_EQ(call_all(*comm, &again), 0u);
      EXPECT_EQ(again, error);
    } else {
      comm->leave();
      if (const auto left = comm->await_all_left("the end"); !left) {
        EXPECT_THAT(left.error().message, testing::HasSubstr("rank 1"));
      }
    }
    clear();
    go_ahead();
  }
  void clear() const {
    const auto& memory = here_.pool->memory();
    const std::vector<std::byte> zeros(area_.bytes);
    for (const auto* object : {&area_, &token_})
      memory.publish_bulk(object->data, zeros.data(), object->bytes);
    memory.full_fence();
  }

  Attached here_;
  arena::Object area_, token_, memory_;
  bool zero_copy_ = false;
};

TEST_P(CollCrash, WhileItPublishes) {
  go_ahead();
  survive_everywhere(
      fmt::format("collectives{}, {}", checked() ? ", calls compared" : "", mode_name(mode())), 40,
      [&](const auto& armed) { die_somewhere(armed); }, [&] { survive(); });
}

/// The victim publishes memory in the pool, without a copy.
TEST_P(CollCrash, WhileItPublishesWhereItsProgramHasIt) {
  zero_copy_ = true;
  go_ahead();
  survive_everywhere(
      fmt::format("zero copy{}, {}", checked() ? ", calls compared" : "", mode_name(mode())), 40,
      [&](const auto& armed) { die_somewhere(armed); }, [&] { survive(); });
}

INSTANTIATE_TEST_SUITE_P(Modes, CollCrash,
                         testing::Combine(testing::Values(coherence::Mode::hardware,
                                                          coherence::Mode::software),
                                          testing::Bool(), testing::Values(1u, 2u)),
                         [](const auto& of) {
                           return std::string(mode_name(std::get<0>(of.param))) +
                                  (std::get<1>(of.param) ? "Checked" : "") +
                                  std::to_string(std::get<2>(of.param));
                         });

}  // namespace
}  // namespace penstock::crash
