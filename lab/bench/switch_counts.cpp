// The cost of a collective for its hosts: through the plain pool, in one and in two shots, and in a
// switch that computes. Ranks are threads with an attachment and an emulated node each; the switch
// is another thread. Results are counts, not times: CPU seconds of the ranks' threads and of the
// switch's are separate.
//
//   switch_counts --ranks 2,4,8,16 --sizes 1024,65536,1048576 [--calls N]
//
// Prints a line for each way, collective, number of ranks and size (of a rank's longest buffer):
// for the rank that does most, bytes up and down its link, packets or words that it writes, bytes
// that pass through its arithmetic; then CPU microseconds of a rank and of the switch for one call,
// and whether the result of all ranks has the bits of one_shot.
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "accelerator/server.hpp"
#include "base/format.hpp"
#include "bench/bench_pool.hpp"
#include "bench/program.hpp"
#include "coll/communicator.hpp"
#include "coll/planning.hpp"
#include "offload/switch_port.hpp"
#include "schedule/uniform.hpp"

namespace penstock::bench {
namespace {

using coll::Collective;

constexpr std::uint64_t element = sizeof(float);

struct Case {
  Collective collective = Collective::allreduce;
  std::uint32_t ranks = 2;
  std::uint64_t bytes = 0;  ///< of a rank's longest buffer
  coll::Plan plan;
  const char* way = "";
};

struct Counts {
  std::uint64_t up = 0, down = 0, packets = 0, reduced = 0;
};

double cpu_us() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

coll::Problem problem_of(const Case& of, std::uint32_t rank) {
  const bool scatters = coll::spreads(of.collective);
  const std::uint64_t block = scatters ? of.bytes / element / of.ranks * element : of.bytes;
  return coll::uniform_problem(of.collective, of.ranks, rank, 0, block);
}

/// Counts from the schedule that each rank runs.
Result<Counts> count_plain(const Case& of, const coll::Shape& shape) {
  Counts most;
  for (std::uint32_t rank = 0; rank < of.ranks; ++rank) {
    coll::Plan plan = of.plan;
    plan.slots = shape.slots;
    plan.slot_bytes = shape.slot_bytes;
    const auto schedule = PENSTOCK_TRY(coll::build(problem_of(of, rank), plan));
    const coll::Traffic traffic = traffic_of(schedule);
    std::uint64_t reduced = 0;
    for (const coll::Step& step : schedule.steps)
      if (step.kind == coll::StepKind::combine) reduced += step.operand_count * step.span.bytes;
    most.up = std::max(most.up, traffic.written_bytes);
    most.down = std::max(most.down, traffic.read_bytes);
    most.packets = std::max(most.packets, traffic.rings + traffic.releases);
    most.reduced = std::max(most.reduced, reduced);
  }
  return most;
}

/// Counts from the switch's own counts of one call.
Counts count_switch(const Case& of, const accelerator::Counts& counts) {
  const std::uint64_t lines = coherence::line_bytes;
  const bool scatters = coll::spreads(of.collective);
  Counts one{.packets = counts.commands / of.ranks};
  one.up = counts.traffic.gathered_bytes / of.ranks + one.packets * lines;
  one.down = counts.traffic.result_bytes / (scatters ? of.ranks : 1) + one.packets * lines;
  return one;
}

/// Ranks and their switch in this process.
class Job {
 public:
  Job(std::string spec, std::uint32_t ranks) : spec_(std::move(spec)), ranks_(ranks) {}

  Result<void> open(const coll::Shape& shape) {
    shape_ = shape;
    server_ =
        PENSTOCK_TRY(accelerator::Server::open({.attach = [this](pool::AttachOptions options) {
          options.spec = spec_;
          options.emulated_node = ranks_;
          return pool::Pool::attach(options);
        }}));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      pools_.push_back(PENSTOCK_TRY(pool::Pool::attach({.spec = spec_,
                                                        .rank = static_cast<int>(rank),
                                                        .job = "switch-counts",
                                                        .emulated_node = rank})));
    playing_ = std::thread([this] { play(); });
    arena_ = PENSTOCK_TRY(arena::Arena::open(*pools_[0]));
    const auto area =
        PENSTOCK_TRY(arena_->create("words", coll::Communicator::bytes(ranks_, shape)));
    coll::Options options{.area = area.offset, .shape = shape};
    for (const auto& pool : pools_) options.tokens.push_back(pool->token());
    PENSTOCK_TRY(ask(options));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      coll::Options own = options;
      own.self = rank;
      if (rank != 0) own.is_switch_withdrawn = nullptr;
      comms_.push_back(PENSTOCK_TRY(coll::Communicator::open(*pools_[rank], std::move(own))));
    }
    return {};
  }
  ~Job() {
    end_ = true;
    if (playing_.joinable()) playing_.join();
  }

  /// One call on all ranks; keeps its outputs. Returns the CPU microseconds of a rank, on average.
  Result<double> call(const Case& of, std::vector<std::vector<std::byte>>& outputs) {
    std::vector<std::thread> threads;
    std::vector<Result<void>> done(ranks_);
    std::vector<double> used(ranks_);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      threads.emplace_back([&, rank] {
        const coll::Problem problem = problem_of(of, rank);
        std::vector<float> input(of.bytes / element);
        std::mt19937 random(rank + 1);
        for (float& value : input) value = static_cast<float>(random()) / 1e6F;
        std::vector<std::byte>& out = outputs[rank];
        out.assign(problem.output[0].bytes, std::byte{});
        const auto sum =
            *coll::Reduction::make(coll::Datatype::float32, coll::Operation::sum, ranks_);
        const coll::PredefinedArithmetic arithmetic(sum);
        const double before = cpu_us();
        done[rank] = comms_[rank]->run({.name = of.way,
                                        .problem = &problem,
                                        .plan = of.plan,
                                        .input = reinterpret_cast<const std::byte*>(input.data()),
                                        .output = out.data(),
                                        .arithmetic = &arithmetic});
        used[rank] = cpu_us() - before;
      });
    for (auto& thread : threads) thread.join();
    double all = 0;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (!done[rank]) return unexpected(done[rank].error());
      all += used[rank] / ranks_;
    }
    return all;
  }
  /// Only while no call is under way.
  accelerator::Counts counts() { return server_->counts(); }
  double switch_us() const { return used_us_; }

 private:
  Result<void> ask(coll::Options& options) {
    auto switches = PENSTOCK_TRY(offload::serving(*arena_));
    if (!switches) return fail(ErrorCode::not_found, "no switch serves pool {}", spec_);
    const offload::Shape shape{.ranks = ranks_,
                               .window = shape_.slots,
                               .slot_bytes = shape_.slot_bytes,
                               .communicator = 1,
                               .owner = pools_[0]->token()};
    const auto object =
        PENSTOCK_TRY(arena_->create("region", offload::Region(0, shape).bytes(), {.zero = false}));
    const offload::Region region(object.offset, shape);
    offload::describe(*pools_[0], region);
    const auto asked = PENSTOCK_TRY(offload::Registration::ask(*std::move(switches), region));
    if (!asked->served()) return fail(ErrorCode::unavailable, "{}", asked->why());
    options.in_switch = offload::service_of(region);
    options.is_switch_withdrawn = offload::withdrawal_of(asked);
    return {};
  }
  /// Excludes the CPU time of looks in vain.
  void play() {
    while (!end_) {
      const double before = cpu_us();
      if (server_->poll())
        used_us_ = used_us_ + cpu_us() - before;
      else
        std::this_thread::yield();
    }
  }

  std::string spec_;
  std::uint32_t ranks_;
  coll::Shape shape_;
  std::unique_ptr<accelerator::Server> server_;
  std::thread playing_;
  std::atomic<bool> end_{false};
  std::atomic<double> used_us_{0};
  std::vector<std::unique_ptr<pool::Pool>> pools_;
  std::unique_ptr<arena::Arena> arena_;
  std::vector<std::unique_ptr<coll::Communicator>> comms_;
};

Result<void> measure(Job& job, const Case& of, const coll::Shape& shape, int calls,
                     std::vector<std::vector<std::byte>>& wanted) {
  std::vector<std::vector<std::byte>> outputs(of.ranks);
  const accelerator::Counts before = job.counts();
  const double switch_before = job.switch_us();
  double used = 0;
  for (int call = 0; call < calls; ++call) used += PENSTOCK_TRY(job.call(of, outputs)) / calls;
  const accelerator::Counts after = job.counts();
  const auto of_one = [calls](std::uint64_t a, std::uint64_t b) {
    return (b - a) / static_cast<std::uint64_t>(calls);
  };
  accelerator::Counts one;
  one.commands = of_one(before.commands, after.commands);
  one.traffic.gathered_bytes = of_one(before.traffic.gathered_bytes, after.traffic.gathered_bytes);
  one.traffic.result_bytes = of_one(before.traffic.result_bytes, after.traffic.result_bytes);
  const Counts counts =
      of.plan.in_switch ? count_switch(of, one) : PENSTOCK_TRY(count_plain(of, shape));
  if (wanted.empty()) wanted = outputs;
  fmt::print("{} {} {} {} {} {} {} {} {:.1f} {:.1f} {}\n", of.way, name_of(of.collective), of.ranks,
             of.bytes, counts.up, counts.down, counts.packets, counts.reduced, used,
             (job.switch_us() - switch_before) / calls, outputs == wanted ? "equal" : "DIFFERENT");
  std::fflush(stdout);
  return {};
}

Result<void> measure_all(std::uint32_t ranks, const std::vector<std::uint64_t>& sizes, int calls) {
  const std::uint64_t bytes = (std::uint64_t{64} + 24 * ranks) << 20;
  const auto pool = PENSTOCK_TRY(BenchPool::prepare("", bytes, coherence::Mode::software));
  const coll::Shape shape{.slot_bytes = 1 << 18};
  Job job(pool.spec(), ranks);
  PENSTOCK_TRY(job.open(shape));
  for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter})
    for (const std::uint64_t size : sizes) {
      std::vector<std::vector<std::byte>> wanted;
      Case of{.collective = collective, .ranks = ranks, .bytes = size, .way = "one_shot"};
      of.plan.slot_bytes = shape.slot_bytes;
      PENSTOCK_TRY(measure(job, of, shape, calls, wanted));
      of.way = "two_shot";
      of.plan.algorithm = coll::Algorithm::two_shot;
      if (collective == Collective::allreduce) PENSTOCK_TRY(measure(job, of, shape, calls, wanted));
      of.way = "switch";
      of.plan.algorithm = coll::Algorithm::one_shot;
      of.plan.in_switch = true;
      PENSTOCK_TRY(measure(job, of, shape, calls, wanted));
    }
  return {};
}

/// Errors: invalid_argument for sizes that no rank, or this machine's memory, can have.
Result<void> check(const std::vector<std::uint32_t>& ranks,
                   const std::vector<std::uint64_t>& sizes) {
  const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::uint64_t buffers = 3;  // inputs, outputs, and the buffers for comparison
  for (const std::uint32_t count : ranks)
    for (const std::uint64_t size : sizes) {
      if (size < count * element)
        return fail(ErrorCode::invalid_argument,
                    "--sizes: {} bytes on {} ranks; each rank needs a number of {} bytes: name {} "
                    "or more",
                    size, count, element, count * element);
      if (size > memory / (buffers * count))
        return fail(ErrorCode::invalid_argument,
                    "--sizes: {0} bytes on {1} ranks need {2} times as much memory, and this "
                    "machine has {3} bytes: name {4} or less, or fewer --ranks",
                    size, count, buffers * count, memory, memory / (buffers * count));
    }
  return {};
}

Result<void> run(const std::vector<std::uint32_t>& ranks, const std::vector<std::uint64_t>& sizes,
                 int calls) {
  PENSTOCK_TRY(check(ranks, sizes));
  fmt::print("# way collective ranks bytes up down packets reduced rank_us switch_us bits\n");
  for (const std::uint32_t count : ranks) PENSTOCK_TRY(measure_all(count, sizes, calls));
  return {};
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  penstock::bench::Program program(
      "What collectives cost their hosts, with a switch that computes and without");
  std::vector<std::uint32_t> ranks{2, 4};
  std::vector<std::uint64_t> sizes{1024, 65536, 1 << 20};
  int calls = 3;
  program.add("--ranks", ranks, "numbers of ranks", {{2, 32}});
  program.add("--sizes", sizes, "bytes of the longest buffer of a rank");
  program.add("--calls", calls, "of each, on average", {{1, 1000}});
  if (const auto status = program.parse(argc, argv)) return *status;
  const auto done = penstock::bench::run(ranks, sizes, calls);
  if (done) return 0;
  fmt::print(stderr, "switch_counts: {}\n", done.error().message);
  return 1;
}
