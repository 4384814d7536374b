// Reductions by way of memory of the GPU: the same bits as by hosts, the operations that a call
// takes, graphs, streams that share a queue, aborts, and a GPU without memory.
#include <cstdlib>

#include "gpu/test_calls.hpp"

namespace penstock::gpu {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t from_bytes = 4 << 10;

Form with_slots(Form form, std::uint64_t bytes) {
  form.shape.slot_bytes = bytes;
  return form;
}

class GpuScratch : public GpuCommunicator {
 protected:
  void SetUp() override { plan_override_.scratch_from = from_bytes; }
  void TearDown() override {
    unsetenv("STANDIN_ONE_QUEUE");
    unsetenv("STANDIN_FULL_QUEUE_ABORTS");
    unsetenv("STANDIN_NO_MEMORY_FROM");
  }
  void run_by(const Form& form, std::uint32_t ranks, const std::function<void(const Rank&)>& body) {
    SCOPED_TRACE(form.name);
    make_pool(form);
    run(ranks, ranks, form.shape, body);
  }
};

/// Chunks just below, at and above the length from which they go this way.
void reduce_all_lengths(const Rank& rank) {
  std::mt19937_64 random(base::seed_in_tests());
  constexpr Collective kinds[] = {Collective::reduce, Collective::reduce_scatter,
                                  Collective::allreduce, Collective::scan};
  for (std::uint32_t t = 0; t < coll::datatype_count; ++t) {
    for (std::uint32_t o = 0; o < coll::operation_count; ++o) {
      const auto type = static_cast<coll::Datatype>(t);
      const auto operation = static_cast<coll::Operation>(o);
      if (!supports(operation, type)) continue;
      const std::uint64_t at = from_bytes / bytes_of(type);
      const std::uint64_t sizes[] = {at - 1, at, at + 1, 3 * at + 5};
      reduce_both_ways(rank, kinds[random() % std::size(kinds)], type, operation,
                       sizes[random() % std::size(sizes)]);
    }
  }
}

TEST_F(GpuScratch, ReducesAsHostsDo) {
  for (const Form& form : {forms[0], forms[2]})
    run_by(with_slots(form, 16 << 10), 3, reduce_all_lengths);
}

/// Buffers at addresses that no wide load can use, and results over the input.
void reduce_at_any_place(const Rank& rank) {
  constexpr coll::Datatype types[] = {coll::Datatype::int8, coll::Datatype::bfloat16,
                                      coll::Datatype::float32, coll::Datatype::float64};
  for (const coll::Datatype type : types) {
    const std::uint64_t width = bytes_of(type), elements = 2 * from_bytes / width + 3;
    for (const Collective collective : {Collective::allreduce, Collective::scan})
      for (const Placing& placing :
           {Placing{}, Placing{.in_at = width}, Placing{.out_at = width}, Placing{.in_place = true},
            Placing{.in_place = true, .in_at = width}})
        reduce_both_ways(rank, reduction_problem(collective, rank, type, elements), type,
                         coll::Operation::sum, placing);
  }
}

TEST_F(GpuScratch, ReducesAtAnyPlace) {
  for (const Form& form : {forms[0], forms[2]})
    run_by(with_slots(form, 16 << 10), 3, reduce_at_any_place);
}

/// Some blocks go this way and some do not; one is empty.
void reduce_uneven_blocks(const Rank& rank) {
  constexpr std::uint64_t lengths[] = {3 * from_bytes, 0, from_bytes - 4};
  coll::Problem problem{.collective = Collective::reduce_scatter,
                        .ranks = rank.core.ranks(),
                        .rank = rank.core.self(),
                        .element_bytes = 4,
                        .max_block_bytes = lengths[0]};
  std::uint64_t at = 0;
  for (std::uint32_t r = 0; r < problem.ranks; at += lengths[r++])
    problem.input.push_back({at, lengths[r]});
  problem.output = {{0, lengths[problem.rank]}};
  reduce_both_ways(rank, problem, coll::Datatype::float32, coll::Operation::average);
}

TEST_F(GpuScratch, ReducesUnevenBlocks) {
  for (const Form& form : {forms[0], forms[2]})
    run_by(with_slots(form, 32 << 10), 3, reduce_uneven_blocks);
}

struct Operations {
  unsigned copies = 0, kernels = 0;
};

/// Of one allreduce of two ranks, in chunks of 1.25 MB: three pieces each.
class GpuScratchOperations : public GpuScratch {
 protected:
  static constexpr std::uint32_t chunks = 2, elements = chunks * (1280 << 10) / 4;

  Operations of_one_call(const Form& form, std::uint64_t from) {
    plan_override_.scratch_from = from;
    plan_override_.chunks = chunks;
    const Operations before{copies(), launches_of("penstock_combine_")};
    run_by(with_slots(form, 1280 << 10), 2, [](const Rank& rank) {
      Sums sums(rank, elements);
      sums.put(1);
      ASSERT_TRUE(sums.enqueue());
      sums.expect(1);
    });
    return {copies() - before.copies, launches_of("penstock_combine_") - before.kernels};
  }
};

TEST_F(GpuScratchOperations, AreThoseOfTheSchedule) {
  if (on_a_gpu()) GTEST_SKIP() << "a GPU does not count";
  constexpr unsigned ranks = 2, pieces = 3;
  for (const Form& form : {forms[0], forms[2]}) {
    SCOPED_TRACE(form.name);
    const Operations scratch = of_one_call(form, 256 << 10);
    EXPECT_EQ(scratch.copies, ranks * chunks * (1 + pieces));
    EXPECT_EQ(scratch.kernels, ranks * chunks * pieces);
    const Operations straight = of_one_call(form, 2 << 20);
    EXPECT_EQ(straight.copies, ranks * chunks);
    EXPECT_EQ(straight.kernels, ranks * chunks);
  }
}

/// The memory grows behind the graph, which keeps the one that it has. A single rank captures in
/// the mode that forbids all threads to allocate.
void replay(const Rank& rank) {
  const int mode = rank.core.ranks() == 1 ? cuda::capture_global : cuda::capture_thread_local;
  Sums captured(rank, 3 * from_bytes / 4 + 1), longer(rank, 9 * from_bytes / 4);
  captured.capture(mode, 2);
  for (std::uint32_t turn = 1; turn < 8; ++turn) {
    captured.put(turn);
    captured.launch();
    captured.expect(turn);
    if (turn % 2 == 0) continue;
    longer.put(turn);
    ASSERT_TRUE(longer.enqueue());
    longer.expect(turn);
  }
  ASSERT_TRUE(rank.gpu.drain());
}

TEST_F(GpuScratch, IsCapturedInGraphs) {
  plan_override_.chunks = 1;
  run_by(with_slots(forms[2], 64 << 10), 1, replay);
  plan_override_.chunks = 2;
  run_by(with_slots(forms[2], 64 << 10), 2, replay);
}

TEST_F(GpuScratch, SharesAQueueWithOtherStreams) {
  if (on_a_gpu()) GTEST_SKIP() << "ranks of one process would share a GPU's queue";
  setenv("STANDIN_ONE_QUEUE", "1", 1);
  for (const Form& form : {forms[0], forms[2]})
    run_by(with_slots(form, 16 << 10), 3, reduce_uneven_blocks);
}

void reduce_much(const Rank& rank) {
  Sums sums(rank, 2 << 20);
  sums.put(3);
  ASSERT_TRUE(sums.enqueue());
  sums.expect(3);
}

TEST_F(GpuScratch, LongCallWaitsOutsideTheDriver) {
  setenv("STANDIN_FULL_QUEUE_ABORTS", "1", 1);
  for (const Form& form : {forms[0], forms[2]})
    run_by(with_slots(form, from_bytes), 2, reduce_much);
}

/// Rank 0 gives up in the middle: the streams of both run out, and both are told.
void abort_within(const Rank& rank) {
  const Sums sums(rank, 1 << 19);
  const std::uint64_t before = rank.core.begun();
  (void)sums.enqueue();
  if (rank.core.self() == 0) {
    while (rank.core.begun() == before) std::this_thread::yield();
    rank.gpu.abort();
  }
  sums.wait();
  EXPECT_FALSE(rank.gpu.drain());
  ASSERT_TRUE(rank.gpu.error());
  EXPECT_THAT(rank.gpu.error()->message,
              rank.core.self() == 0 ? HasSubstr("aborted") : HasSubstr("rank 0"));
}

TEST_F(GpuScratch, AnAbortLetsTheStreamsGo) {
  for (const Form& form : {forms[0], forms[2]})
    run_by(with_slots(form, from_bytes), 2, abort_within);
}

TEST_F(GpuScratch, IsNotUsedIfMemoryIsShort) {
  if (on_a_gpu()) GTEST_SKIP() << "a GPU has memory";
  setenv("STANDIN_NO_MEMORY_FROM", std::to_string(40 << 10).c_str(), 1);
  for (const Form& form : {forms[0], forms[2]})
    run_by(with_slots(form, 64 << 10), 2, [](const Rank& rank) {
      for (const std::uint64_t elements : {1200u, 5200u, 1300u}) {  // the second has none
        const unsigned before = launches_of("penstock_combine_");
        reduce_both_ways(rank, Collective::allreduce, coll::Datatype::float32, coll::Operation::sum,
                         elements);
        EXPECT_GT(launches_of("penstock_combine_"), before);
      }
    });
}

}  // namespace
}  // namespace penstock::gpu
