#include "bench/tuning_runs.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "bench/bench_pool.hpp"
#include "bench/samples.hpp"
#include "bench/shared_state.hpp"
#include "bench/supervisor.hpp"
#include "schedule/arithmetic.hpp"
#include "schedule/uniform.hpp"

namespace penstock::bench {

namespace {

constexpr std::uint32_t max_ranks = 64;
constexpr std::uint32_t least_rounds = 3, max_rounds = 25;
constexpr std::uint64_t burst_ns = 200'000, meeting_timeout_ns = 60'000'000'000;
constexpr std::uint64_t least_repetitions = 2, max_repetitions = 200;

/// Ordinary coherent memory outside the pool.
struct Shared {
  SharedWord arrived[max_ranks];  ///< meetings reached, by rank
  SharedWord last_ns[max_ranks];  ///< by rank: time of a burst's repetition
  std::uint64_t tokens[max_ranks] = {};
  std::uint64_t area = 0;
  coll::Shape shape;  ///< rank 0 writes these members before a meeting
  std::uint64_t repetitions = 0;
  bool goes_on = true;
  std::atomic<std::uint32_t> rounds{0};
};

struct SharedMemory {
  SharedMemory() {
    void* const at =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED) shared = new (at) Shared{};
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    if (shared != nullptr) munmap(shared, sizeof(Shared));
  }
  Shared* shared = nullptr;
};

/// One rank's process.
class TunedRank {
 public:
  TunedRank(const TuningRun& run, std::uint32_t self, Shared& shared, Samples& samples)
      : run_(run), self_(self), shared_(shared), samples_(samples) {}

  Result<void> measure() {
    PENSTOCK_TRY(open());
    const std::uint64_t end = base::now_ns() + run_.budget_ns;
    for (std::uint32_t round = 0; shared_.goes_on && round < max_rounds; ++round) {
      std::size_t row = 0;
      for (const TuningCase& c : cases_)
        for (std::size_t i = 0; i < c.plans.size(); ++i) PENSTOCK_TRY(burst(c, i, row++, round));
      if (self_ == 0) {
        shared_.rounds.store(round + 1);
        shared_.goes_on = round + 1 < least_rounds || base::now_ns() < end;
      }
      PENSTOCK_TRY(meet());
    }
    comm_->leave();
    return self_ == 0 ? comm_->await_all_left("the end of the measurement") : Result<void>();
  }

 private:
  Result<void> open() {
    hold_ = PENSTOCK_TRY(Attachment::open(run_.spec, self_, self_ / run_.per_node));
    shared_.tokens[self_] = hold_.pool->token();
    if (self_ == 0) PENSTOCK_TRY(place());
    PENSTOCK_TRY(meet());
    coll::Options options{.area = shared_.area, .self = self_, .shape = shared_.shape};
    options.tokens.assign(shared_.tokens, shared_.tokens + run_.ranks);
    for (std::uint32_t rank = 0; rank < run_.ranks; ++rank)
      options.nodes.push_back(rank / run_.per_node);
    comm_ = PENSTOCK_TRY(coll::Communicator::open(*hold_.pool, std::move(options)));
    cases_ = tuning_cases(run_.grid, run_.ranks, run_.per_node, shared_.shape);
    std::uint64_t most = 0;
    for (const TuningCase& c : cases_) most = std::max(most, c.bytes * run_.ranks);
    input_.resize(most);
    output_.resize(most);
    return {};
  }
  /// Places the area as plugins/mpi places a communicator's.
  Result<void> place() {
    shared_.shape = coll::shape_for(run_.ranks, hold_.arena->stats().bytes_total);
    const std::uint64_t bytes = coll::Communicator::bytes(run_.ranks, shared_.shape);
    const auto made = PENSTOCK_TRY(
        hold_.arena->create(fmt::format("penstock.tune.{:x}", hold_.pool->token()), bytes,
                            {.lifetime = arena::Lifetime::process, .alignment = 4096}));
    shared_.area = made.offset;
    return {};
  }

  Result<void> meet() {
    auto& arrived = shared_.arrived;
    arrived[self_].value.store(++meetings_, std::memory_order_release);
    base::Waiter waiter("the other ranks of the measurement", meeting_timeout_ns, {},
                        {.spins = 20'000, .yields = 200'000});
    for (std::uint32_t rank = 0; rank < run_.ranks; ++rank)
      while (arrived[rank].value.load(std::memory_order_acquire) < meetings_)
        PENSTOCK_TRY(waiter.pause());
    return {};
  }

  Result<void> call(const coll::Problem& problem, const coll::Plan& plan) {
    return comm_->run({.name = name_of(problem.collective),
                       .problem = &problem,
                       .plan = plan,
                       .input = input_.data(),
                       .output = output_.data(),
                       .arithmetic = &arithmetic_});
  }

  /// Makes a number of calls by one plan, with roots in turn. Its time is that of the slowest rank.
  Result<void> burst(const TuningCase& c, std::size_t candidate, std::size_t row,
                     std::uint32_t round) {
    const coll::Problem problems[] = {
        coll::uniform_problem(c.collective, c.ranks, self_, 0, c.bytes),
        coll::uniform_problem(c.collective, c.ranks, self_, c.ranks - 1, c.bytes)};
    const coll::Plan& plan = c.plans[candidate];
    PENSTOCK_TRY(call(problems[0], plan));  // builds its schedule
    const std::uint64_t before = base::now_ns();
    PENSTOCK_TRY(call(problems[1], plan));
    if (self_ == 0) {
      const std::uint64_t one = std::max<std::uint64_t>(1, base::now_ns() - before);
      shared_.repetitions = std::clamp(burst_ns / one, least_repetitions, max_repetitions);
    }
    PENSTOCK_TRY(meet());
    const std::uint64_t repetitions = shared_.repetitions;
    const std::uint64_t begin = base::now_ns();
    for (std::uint64_t i = 0; i < repetitions; ++i) PENSTOCK_TRY(call(problems[i % 2], plan));
    const std::uint64_t ns = (base::now_ns() - begin) / repetitions;
    shared_.last_ns[self_].value.store(ns, std::memory_order_release);
    PENSTOCK_TRY(meet());
    if (self_ != 0) return {};
    std::uint64_t slowest = 0;
    for (std::uint32_t rank = 0; rank < run_.ranks; ++rank)
      slowest = std::max(slowest, shared_.last_ns[rank].value.load(std::memory_order_acquire));
    samples_.record(row, round, static_cast<double>(slowest));
    return {};
  }

  const TuningRun& run_;
  std::uint32_t self_;
  Shared& shared_;
  Samples& samples_;
  Attachment hold_;
  std::unique_ptr<coll::Communicator> comm_;
  std::vector<TuningCase> cases_;
  std::vector<std::byte> input_, output_;
  std::uint64_t meetings_ = 0;
  const coll::PredefinedArithmetic arithmetic_{
      *coll::Reduction::make(coll::Datatype::float32, coll::Operation::sum, 2)};
};

}  // namespace

Result<std::vector<MeasuredCase>> measure_plans(const TuningRun& run) {
  if (run.ranks < 2 || run.ranks > max_ranks)
    return fail(ErrorCode::invalid_argument, "{} ranks cannot be measured: 2 to {}", run.ranks,
                max_ranks);
  const SharedMemory memory;
  if (memory.shared == nullptr)
    return fail(ErrorCode::no_space, "cannot map {} bytes", sizeof(Shared));
  Samples samples(run.grid.max_plans(), max_rounds);
  const std::vector<int> cpus = allowed_cpus();
  const bool pinned = run.pinned && cpus.size() >= run.ranks;
  constexpr std::uint64_t spare_ns = 300'000'000'000;
  Supervisor supervisor(run.ranks, "rank", run.budget_ns + spare_ns);
  for (std::uint32_t self = 0; self < run.ranks; ++self)
    PENSTOCK_TRY(supervisor.start(self, pinned ? std::optional(cpus[self]) : std::nullopt,
                                  [&]() -> Result<void> {
                                    TunedRank rank(run, self, *memory.shared, samples);
                                    return rank.measure();
                                  }));
  PENSTOCK_TRY(supervisor.watch([&] {
    if (run.progress) run.progress(memory.shared->rounds.load(), max_rounds);
  }));
  std::vector<MeasuredCase> measured;
  std::size_t row = 0;
  for (TuningCase& c : tuning_cases(run.grid, run.ranks, run.per_node, memory.shared->shape)) {
    MeasuredCase one{std::move(c), {}, {}};
    for (std::size_t i = 0; i < one.what.plans.size(); ++i, ++row) {
      one.ns.push_back(samples.median(row).value_or(0));
      one.least_ns.push_back(samples.minimum(row).value_or(0));
    }
    measured.push_back(std::move(one));
  }
  return measured;
}

}  // namespace penstock::bench
