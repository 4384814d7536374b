// Figure 9 of cMPI with as many ranks: pairs (i, i + n/2) that stream messages at the same time
// through published rings of each cell size, and through Penstock's channels. Also with more ranks
// than cores: CPU time, and looks that found nothing. A rank yields its core after each such look.
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <new>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"
#include "bench/bench_pool.hpp"
#include "bench/buffer.hpp"
#include "bench/cmpi_ring.hpp"
#include "bench/endpoint_path.hpp"
#include "bench/program.hpp"
#include "bench/samples.hpp"
#include "bench/supervisor.hpp"

namespace penstock::bench {
namespace {

constexpr unsigned max_ranks = 256;

struct Plan {
  unsigned ranks = 16;
  std::vector<std::size_t> sizes = {64, 8192, 65536};
  std::vector<std::uint64_t> cells = {16 << 10, 32 << 10, 64 << 10, 128 << 10};

  std::size_t variants() const { return cells.size() + 1; }  // Penstock's variant is the last
  std::size_t rows() const { return sizes.size() * variants(); }
  std::uint64_t rings_bytes() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t cell : cells) sum += CmpiRing::bytes(cell);
    return sum;
  }
};

std::size_t messages_of(std::size_t bytes) {
  return std::clamp<std::size_t>((4 << 20) / bytes, 4, 1000);
}

/// The cost of a row in one round, over all ranks.
struct Row {
  std::atomic<std::uint64_t> cpu_ns{0}, in_vain{0};
  std::atomic<std::uint64_t> begin_ns{~std::uint64_t{0}}, end_ns{0};
};

/// Ordinary memory that all ranks share.
struct Shared {
  std::atomic<std::uint64_t> arrived{0};
  std::atomic<std::uint64_t> rings[max_ranks];  ///< offset in the pool, by pair
  transport::Address addresses[max_ranks];
  Row row;
};

std::uint64_t cpu_ns() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ns = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_usec) * 1000;
  };
  return ns(used.ru_utime) + ns(used.ru_stime);
}

template <class Compare>
void replace(std::atomic<std::uint64_t>& word, std::uint64_t value, Compare better) {
  for (std::uint64_t now = word; better(value, now) && !word.compare_exchange_weak(now, value);) {
  }
}

class Rank {
 public:
  Rank(unsigned rank, const Plan& plan, Shared& shared, Samples& samples)
      : rank_(rank),
        plan_(plan),
        shared_(shared),
        samples_(samples),
        out_(largest(), pair()),
        in_(largest(), max_ranks),
        expected_(largest(), pair()) {}

  Result<void> open(const std::string& spec) {
    hold_ = PENSTOCK_TRY(Attachment::open(spec, rank_, sends() ? 0u : 1u));
    auto ours = PENSTOCK_TRY(EndpointPath::open(*hold_.arena));
    shared_.addresses[rank_] = ours->address();
    std::byte* rings = nullptr;
    if (sends()) {
      auto made = PENSTOCK_TRY(
          hold_.arena->create(fmt::format("cells.{}", rank_), plan_.rings_bytes(),
                              {.lifetime = arena::Lifetime::process, .alignment = 4096}));
      shared_.rings[pair()] = made.offset;
      rings = made.data;
    }
    meet();
    if (!sends()) {
      void* const there = hold_.pool->at(shared_.rings[pair()], plan_.rings_bytes());
      if (there == nullptr) return fail(ErrorCode::no_space, "rank {} made no rings", pair());
      rings = static_cast<std::byte*>(there);
    }
    const auto memory = PENSTOCK_TRY(paper_memory(hold_.pool->memory().mode()));
    for (const std::uint64_t cell : plan_.cells) {
      const CmpiRing ring(memory, rings, cell);
      paths_.push_back(std::make_unique<CmpiPath>(ring, ring, cell));
      rings += CmpiRing::bytes(cell);
    }
    const unsigned other = sends() ? rank_ + plan_.ranks / 2 : pair();
    if (auto connected = ours->connect(shared_.addresses[other]); !connected) return connected;
    paths_.push_back(std::move(ours));
    for (auto& path : paths_) path->gives_its_core_away();
    return {};
  }

  Result<void> round(std::size_t number) {
    for (std::size_t size = 0; size < plan_.sizes.size(); ++size) {
      for (std::size_t variant = 0; variant < plan_.variants(); ++variant) {
        MessagePath& path = *paths_[variant];
        PENSTOCK_TRY(stream(path, plan_.sizes[size], 2));  // makes the channels, and touches the
                                                           // pages
        if (rank_ == 0) new (&shared_.row) Row;
        meet();
        PENSTOCK_TRY(measure(path, plan_.sizes[size]));
        meet();
        if (rank_ == 0) record(size * plan_.variants() + variant, plan_.sizes[size], number);
        meet();
      }
    }
    return {};
  }

 private:
  bool sends() const { return rank_ < plan_.ranks / 2; }
  unsigned pair() const { return rank_ % (plan_.ranks / 2); }
  std::size_t largest() const { return *std::max_element(plan_.sizes.begin(), plan_.sizes.end()); }

  void meet() {
    const std::uint64_t round = ++meetings_;
    ++shared_.arrived;
    while (shared_.arrived < round * plan_.ranks) base::Backoff::yield();
  }

  Result<void> stream(MessagePath& path, std::size_t bytes, std::size_t messages) {
    for (std::size_t i = 0; i < messages; ++i)
      PENSTOCK_TRY(sends() ? path.send(out_.data(), bytes) : path.receive(in_.data(), bytes));
    return {};
  }

  Result<void> measure(MessagePath& path, std::size_t bytes) {
    std::memset(in_.data(), 0, bytes);
    const std::uint64_t in_vain = path.in_vain(), begin = base::now_ns(), cpu = cpu_ns();
    PENSTOCK_TRY(stream(path, bytes, messages_of(bytes)));
    Row& row = shared_.row;
    row.cpu_ns += cpu_ns() - cpu;
    row.in_vain += path.in_vain() - in_vain;
    replace(row.begin_ns, begin, std::less<>());
    replace(row.end_ns, base::now_ns(), std::greater<>());
    if (sends() || std::memcmp(in_.data(), expected_.data(), bytes) == 0) return {};
    return fail(ErrorCode::internal, "a message of {} bytes arrived damaged", bytes);
  }

  void record(std::size_t row, std::size_t bytes, std::size_t number) {
    const double messages = static_cast<double>(messages_of(bytes)) * (plan_.ranks / 2);
    const double all = messages * static_cast<double>(bytes);
    const Row& sum = shared_.row;
    samples_.record(3 * row, number, static_cast<double>(sum.cpu_ns) / all);  // s/GB
    samples_.record(3 * row + 1, number, static_cast<double>(sum.in_vain) / messages);
    samples_.record(3 * row + 2, number,
                    all / static_cast<double>(sum.end_ns - sum.begin_ns) * 1e3);  // MB/s
  }

  const unsigned rank_;
  const Plan& plan_;
  Shared& shared_;
  Samples& samples_;
  Buffer out_, in_, expected_;
  Attachment hold_;
  std::vector<std::unique_ptr<MessagePath>> paths_;  ///< by variant
  std::uint64_t meetings_ = 0;
};

Report report_of(const Plan& plan, const Samples& samples, coherence::Mode mode) {
  const std::string name = coherence::mode_name(mode);
  Report report("cells");
  for (std::size_t size = 0; size < plan.sizes.size(); ++size) {
    for (std::size_t variant = 0; variant < plan.variants(); ++variant) {
      std::size_t row = 3 * (size * plan.variants() + variant);
      Figure figure{.series = variant < plan.cells.size()
                                  ? ring_name(plan.cells[variant]) + ", " + name
                                  : "Penstock " + name + ", without MPI",
                    .op = "bandwidth",
                    .bytes = plan.sizes[size],
                    .procs = plan.ranks};
      for (const char* metric : {"cpu_s_per_GB", "looks_in_vain", "bandwidth_MBps"}) {
        figure.metric = metric;
        report.add(figure, samples.values(row++));
      }
    }
  }
  return report;
}

Result<void> run_ranks(const Options& options, const Plan& plan, const std::string& spec,
                       Shared& shared, Samples& samples) {
  const std::vector<int> cpus = allowed_cpus();
  const bool enough = plan.ranks <= cpus.size();
  Supervisor supervisor(plan.ranks, "rank", options.pair().timeout_ns);
  for (unsigned rank = 0; rank < plan.ranks; ++rank) {
    const auto body = [&]() -> Result<void> {
      Rank self(rank, plan, shared, samples);
      PENSTOCK_TRY(self.open(spec));
      for (std::size_t round = 0; round < options.rounds; ++round) PENSTOCK_TRY(self.round(round));
      return {};
    };
    PENSTOCK_TRY(supervisor.start(rank, enough ? std::optional(cpus[rank]) : std::nullopt, body));
  }
  return supervisor.watch();
}

Result<Report> measure(const Options& options, const Plan& plan, coherence::Mode mode) {
  const auto bytes = PENSTOCK_TRY(options.size_bytes());
  const HeldSignals held;  // they pass through the supervisor's result, so that the pool is removed
  const auto pool = PENSTOCK_TRY(BenchPool::prepare(options.pool, bytes, mode));
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail(ErrorCode::no_space, "cannot map {} bytes", sizeof(Shared));
  auto* const shared = new (memory) Shared;
  Samples samples(3 * plan.rows(), options.rounds);
  const auto done = run_ranks(options, plan, pool.spec(), *shared, samples);
  munmap(memory, sizeof(Shared));
  if (!done) return unexpected(done.error());
  return report_of(plan, samples, mode);
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock::bench;
  Options options;
  Plan plan;
  options.size = "1G";
  options.rounds = 1;
  Program program{"Pairs of ranks that stream through published rings of each cell size, and ours"};
  program.add(options);
  program.add("--ranks", plan.ranks, "an even number of processes", {{2, max_ranks}});
  program.add("--sizes", plan.sizes, "bytes of the messages", {{1, 1 << 23}});
  program.add("--cells", plan.cells, "bytes of a cell of the published ring", {{64, 1 << 20}});
  if (const auto status = program.parse(argc, argv)) return *status;
  if (plan.ranks % 2 != 0) {
    penstock::base::log(penstock::base::Level::error, "--ranks {}: pairs need an even number",
                        plan.ranks);
    return 2;
  }
  return run_modes(options, [&](auto mode) { return measure(options, plan, mode); });
}
