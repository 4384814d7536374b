// The accesses of a collective's ranks to the pool, counted from their schedules: no pool, no time.
//
//   collective_counts --ranks 4 --sizes 8,65536 [--slot-bytes N]
//
// Prints a line for each collective and size: the form, and then for each figure that of the rank
// with most: bytes written and read (payload; for the eager form whole lines with their tags),
// words written (doorbells, releases), and serialized device accesses: those that begin only when
// the previous one is done, if every rank is where it is awaited. Sizes are those of a rank's
// longest buffer.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/program.hpp"
#include "coll/communicator.hpp"
#include "coll/planning.hpp"
#include "schedule/together.hpp"
#include "schedule/uniform.hpp"

namespace penstock::bench {
namespace {

using coll::Collective;
using coll::StepKind;

constexpr std::uint64_t element = 4;
constexpr std::uint64_t tagged = coherence::tagged_bytes, line = coherence::line_bytes;

struct Counts {
  std::uint64_t written = 0, read = 0, words = 0, accesses = 0;
  void take_larger(const Counts& other) {
    written = std::max(written, other.written);
    read = std::max(read, other.read);
    words = std::max(words, other.words);
    accesses = std::max(accesses, other.accesses);
  }
};

/// `bytes`: of the longest buffer, as in lab/bench/mpi/collectives.c.
coll::Problem problem_of(Collective collective, std::uint32_t ranks, std::uint32_t rank,
                         std::uint64_t bytes) {
  const bool in_parts = coll::spreads(collective) || coll::gathers(collective);
  const std::uint64_t block = in_parts ? bytes / element / ranks * element : bytes;
  return coll::uniform_problem(collective, ranks, rank, 0, block);
}

std::uint64_t lines_of(std::uint64_t bytes) {
  return (bytes + tagged - 1) / tagged;
}

Counts count_eager(const coll::Schedule& schedule) {
  Counts counts;
  std::uint64_t longest = 0, waits = 0;
  bool rings = false;
  const auto read = [&](std::uint64_t bytes) {
    counts.read += lines_of(bytes) * line;
    longest = std::max(longest, lines_of(bytes));
  };
  for (const coll::Step& step : schedule.steps) {
    rings = rings || step.kind == StepKind::ring;
    waits += step.kind == StepKind::wait;
    if (step.kind == StepKind::publish) counts.written += lines_of(step.span.bytes) * line;
    if (step.kind == StepKind::copy) read(step.span.bytes);
    if (step.kind != StepKind::combine) continue;
    for (std::uint32_t i = 0; i < step.operand_count; ++i) {
      if (!schedule.operands[step.first_operand + i].own) read(step.span.bytes);
    }
  }
  // A rank without data publishes a bare line, and a rank that waits only for that reads the line.
  if (rings && counts.written == 0) counts.written = line;
  if (waits != 0 && counts.read == 0) counts.read = waits * line;
  counts.accesses = longest != 0 || waits != 0 ? 1 : 0;
  return counts;
}

Counts count_slots(const coll::Schedule& schedule) {
  const coll::Traffic traffic = traffic_of(schedule);
  Counts counts{.written = traffic.written_bytes,
                .read = traffic.read_bytes,
                .words = traffic.rings + traffic.releases};
  counts.accesses = accesses_of(schedule);
  return counts;
}

int count(Collective collective, std::uint32_t ranks, std::uint64_t bytes,
          const coll::Shape& shape) {
  Counts most;
  coll::Plan plan;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const coll::Problem problem = problem_of(collective, ranks, rank, bytes);
    plan = coll::default_plan(problem, shape);
    plan.slots = plan.eager ? 2 : shape.slots;
    plan.slot_bytes = plan.eager ? shape.eager_bytes : shape.slot_bytes;
    const auto schedule = coll::build(problem, plan);
    if (!schedule) {
      fmt::print(stderr, "{}\n", schedule.error().message);
      return 1;
    }
    most.take_larger(plan.eager ? count_eager(*schedule) : count_slots(*schedule));
  }
  fmt::print("{} {} {} {} {} {} {}\n", name_of(collective), bytes,
             plan.eager ? "eager" : name_of(plan.algorithm), most.written, most.read, most.words,
             most.accesses);
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using penstock::coll::Collective;
  penstock::bench::Program program(
      "Bytes, words and serialized device accesses of collectives, from their schedules");
  std::uint32_t ranks = 2;
  std::vector<std::uint64_t> sizes{8, 1024, 4096, 16384, 65536, 1 << 20};
  penstock::coll::Shape shape;
  shape.slot_bytes = 1 << 18;
  program.add("--ranks", ranks, "ranks", {{2, 4096}});
  program.add("--sizes", sizes, "bytes of the longest buffer of a rank");
  program.add("--slot-bytes", shape.slot_bytes, "of a slot", {{64, 1 << 26}});
  if (const auto status = program.parse(argc, argv)) return *status;
  fmt::print("# collective bytes form written read words serialized_accesses\n");
  int failed = penstock::bench::count(Collective::barrier, ranks, 8, shape);
  for (const Collective collective :
       {Collective::broadcast, Collective::reduce, Collective::allreduce, Collective::allgather,
        Collective::alltoall, Collective::reduce_scatter}) {
    for (const std::uint64_t size : sizes)
      failed |= penstock::bench::count(collective, ranks, size, shape);
  }
  return failed;
}
