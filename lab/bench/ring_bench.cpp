// Messages from one process to another: bare lines (the limit), the ring as cMPI publishes it, and
// Penstock's, measured in turn. One-way latency by ping-pong, and streaming bandwidth.
#include <algorithm>
#include <cstring>

#include "base/format.hpp"
#include "bench/bench_pool.hpp"
#include "bench/buffer.hpp"
#include "bench/cmpi_ring.hpp"
#include "bench/endpoint_path.hpp"
#include "bench/program.hpp"
#include "bench/raw_lines.hpp"
#include "bench/samples.hpp"
#include "bench/two_sides.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t streamed = 1 << 20;  ///< length of the buffer through which streams cycle, at
                                           ///< least

/// The selected measurements.
struct Plan {
  std::vector<std::size_t> latency_sizes = {8, 32, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10};
  std::vector<std::size_t> stream_sizes = {256,      1 << 10,  2 << 10, 4 << 10,
                                           16 << 10, 64 << 10, 1 << 20};
  std::vector<std::size_t> get_sizes = {64 << 10, 256 << 10, 1 << 20, 4 << 20};
  std::vector<std::uint64_t> cells = {64 << 10};  ///< of the published rings
  std::size_t largest = 4 << 20;

  /// Uses these sizes for all, in place of each one's own.
  void measure(const std::vector<std::size_t>& sizes) {
    latency_sizes = stream_sizes = sizes;
    get_sizes.clear();
    largest = (std::max(streamed, *std::max_element(sizes.begin(), sizes.end())) + 63) / 64 * 64;
  }

  // Variants of a message: the limit, a published ring for each cell size, Penstock's.
  std::size_t ours() const { return 1 + cells.size(); }
  std::size_t variants() const { return 2 + cells.size(); }
  // Streaming has no bare variant; it measures instead the two copies that no stream can avoid.
  std::size_t ours_stream() const { return 2 + cells.size(); }
  std::size_t stream_rows() const { return 3 + cells.size(); }
};
constexpr std::size_t bare = 0, first_ring = 1;
constexpr std::size_t copy_in = 0, copy_out = 1, first_ring_stream = 2;

/// Where a message to send lies, and whether its user has just stored it.
enum Origin : std::size_t { private_memory, pool_memory, private_put, pool_put, origin_count };

int ping_pongs(std::size_t bytes) {
  return bytes <= 256 ? 300 : bytes <= 4096 ? 100 : bytes <= 1 << 17 ? 25 : 5;
}

/// Messages of this length in one burst.
std::size_t streamed_messages(std::size_t bytes) {
  return std::clamp<std::size_t>((16 << 20) / bytes, 4, 1 << 14);
}

struct Results {
  Results(const Plan& chosen, std::size_t rounds)
      : plan(chosen),
        latency(plan.latency_sizes.size() * plan.variants(), rounds),
        stream(plan.stream_sizes.size() * plan.stream_rows(), rounds),
        rendezvous_get(plan.get_sizes.size() * origin_count + 1, rounds),
        placement(1, rounds) {}
  const Plan& plan;
  Samples latency;         ///< ns one way
  Samples stream;          ///< GB/s
  Samples rendezvous_get;  ///< ns one way
  Samples placement;       ///< ns
};

/// One side's message paths and buffers.
class Bench {
 public:
  Bench(Side& side, Results& results)
      : side_(side),
        results_(results),
        plan_(results.plan),
        source_(plan_.largest, side.index()),
        expected_(plan_.largest, 1 - side.index()),
        target_(plan_.largest, 7),
        put_(plan_.largest, 8) {}

  Result<void> open(const std::string& spec, bool one_node) {
    hold_ = PENSTOCK_TRY(
        Attachment::open(spec, side_.index(), one_node ? std::optional(0u) : std::nullopt));
    auto area = PENSTOCK_TRY(shared_area());
    carve(area);
    const auto memory = PENSTOCK_TRY(paper_memory(hold_.pool->memory().mode()));
    paths_.push_back(std::make_unique<RawLines>(hold_.pool->memory(), lines_[side_.index()],
                                                lines_[1 - side_.index()]));
    for (std::size_t i = 0; i < plan_.cells.size(); ++i) {
      const std::uint64_t cell = plan_.cells[i];
      paths_.push_back(std::make_unique<CmpiPath>(
          CmpiRing(memory, rings_[2 * i + side_.index()], cell),
          CmpiRing(memory, rings_[2 * i + 1 - side_.index()], cell), cell));
    }
    return open_endpoint();
  }

  Result<void> round(std::size_t number) {
    const double placement = side_.plain_handover_ns();
    if (side_.index() == 0) results_.placement.record(0, number, placement);
    for (std::size_t i = 0; i < plan_.latency_sizes.size(); ++i)
      for (std::size_t variant = 0; variant < plan_.variants(); ++variant)
        if (auto done = ping_pong(i, variant, number); !done) return done;
    for (std::size_t i = 0; i < plan_.get_sizes.size(); ++i)
      for (std::size_t origin = 0; origin < origin_count; ++origin)
        if (auto done = ping_pong_from(i, origin, number); !done) return done;
    for (std::size_t i = 0; i < plan_.stream_sizes.size(); ++i) {
      copies(i, number);
      for (std::size_t row = first_ring_stream; row < plan_.stream_rows(); ++row)
        if (auto done = stream(i, row, number); !done) return done;
    }
    return {};
  }

 private:
  /// Side 0 allocates the memory for the bare lines, the published rings and the copies.
  Result<std::byte*> shared_area() {
    std::uint64_t bytes = 2 * RawLines::bytes(plan_.largest) + 3 * plan_.largest + 3 * 4096;
    for (const std::uint64_t cell : plan_.cells) bytes += 2 * CmpiRing::bytes(cell);
    if (side_.index() == 0) {
      auto made = hold_.arena->create("bench.area", bytes,
                                      {.lifetime = arena::Lifetime::process, .alignment = 4096});
      side_.exchange(made ? made->offset : 0);
      if (!made) return unexpected(made.error());
      return made->data;
    }
    const std::uint64_t offset = side_.exchange(0);
    void* at = hold_.pool->at(offset, bytes);
    if (offset == 0 || at == nullptr)
      return fail(ErrorCode::no_space, "side 0 could not make the measured area");
    return static_cast<std::byte*>(at);
  }

  void carve(std::byte* area) {
    for (auto& lines : lines_) {
      lines = area;
      area += RawLines::bytes(plan_.largest);
    }
    for (std::size_t i = 0; i < 2 * plan_.cells.size(); ++i) {
      rings_.push_back(area);
      area += CmpiRing::bytes(plan_.cells[i / 2]);
    }
    copied_ = area;
    in_pool_ = area + (1 + side_.index()) * plan_.largest;
  }

  Result<void> open_endpoint() {
    auto path = PENSTOCK_TRY(EndpointPath::open(*hold_.arena));
    const transport::Address mine = path->address();
    transport::Address theirs = mine;
    theirs.slot = static_cast<std::uint32_t>(side_.exchange(mine.slot));
    theirs.generation = static_cast<std::uint32_t>(side_.exchange(mine.generation));
    if (auto connected = path->connect(theirs); !connected) return connected;
    paths_.push_back(std::move(path));
    return {};
  }

  Result<void> play(MessagePath& path, std::size_t bytes, int count) {
    for (int i = 0; i < count; ++i) {
      Result<void> done;
      if (side_.index() == 0) done = path.send(source_.data(), bytes);
      if (done) done = path.receive(target_.data(), bytes);
      if (done && side_.index() == 1) done = path.send(source_.data(), bytes);
      if (!done) return done;
    }
    return {};
  }

  Result<void> check(std::size_t bytes, const char* what) {
    if (std::memcmp(target_.data(), expected_.data(), bytes) == 0) return {};
    return fail(ErrorCode::internal, "{}: a message of {} bytes arrived damaged", what, bytes);
  }

  Result<void> ping_pong(std::size_t size_index, std::size_t variant, std::size_t round) {
    const std::size_t bytes = plan_.latency_sizes[size_index];
    MessagePath& path = *paths_[variant];
    std::memset(target_.data(), 0, bytes);
    Result<void> done = play(path, bytes, ping_pongs(bytes) / 10 + 1);
    if (!done) return done;
    if (done = check(bytes, "ping-pong"); !done) return done;
    const int count = ping_pongs(bytes);
    const double ns = side_.burst([&] { done = play(path, bytes, count); });
    if (side_.index() == 0)
      results_.latency.record(size_index * plan_.variants() + variant, round, ns / (2.0 * count));
    return done;
  }

  /// The user stores each message before it sends it, or sends the same bytes again.
  Result<void> ping_pong_from(std::size_t size_index, std::size_t origin, std::size_t round) {
    const std::size_t bytes = plan_.get_sizes[size_index];
    const bool stores = origin == private_put || origin == pool_put;
    std::byte* from = origin == pool_memory || origin == pool_put ? in_pool_ : put_.data();
    std::memcpy(from, source_.data(), bytes);
    MessagePath& path = *paths_[plan_.ours()];
    const auto send = [&] {
      if (stores) std::memcpy(from, source_.data(), bytes);
      return path.send(from, bytes);
    };
    const auto play = [&](int count) {
      Result<void> done;
      for (int i = 0; i < count && done; ++i) {
        if (side_.index() == 0) done = send();
        if (done) done = path.receive(target_.data(), bytes);
        if (done && side_.index() == 1) done = send();
      }
      return done;
    };
    std::memset(target_.data(), 0, bytes);
    Result<void> done = play(4);
    if (!done) return done;
    if (done = check(bytes, "from the pool"); !done) return done;
    const int count = bytes <= 64 << 10 ? 25 : 8;
    const double ns = side_.burst([&] { done = play(count); });
    if (side_.index() == 0)
      results_.rendezvous_get.record(size_index * origin_count + origin, round, ns / (2.0 * count));
    return done;
  }

  /// Side 0 alone copies into the pool, then side 1 alone copies out of it.
  void copies(std::size_t size_index, std::size_t round) {
    const std::size_t bytes = plan_.stream_sizes[size_index];
    const std::size_t stride =
        (bytes + coherence::line_bytes - 1) / coherence::line_bytes * coherence::line_bytes;
    const std::size_t pieces = plan_.largest / stride, count = streamed_messages(bytes);
    const coherence::Memory& memory = hold_.pool->memory();
    for (const std::size_t row : {copy_in, copy_out}) {
      const bool works = side_.index() == (row == copy_in ? 0u : 1u);
      const double ns = side_.burst([&] {
        if (!works) return;
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t at = i % pieces * stride;
          if (row == copy_in) {
            memory.publish_bulk(copied_ + at, source_.data() + at, bytes);
            memory.store_fence();
          } else {
            memory.observe_bulk(target_.data() + at, copied_ + at, bytes);
          }
        }
      });
      if (works)
        results_.stream.record(size_index * plan_.stream_rows() + row, round,
                               static_cast<double>(bytes * count) / ns);
      side_.meet();
    }
  }

  Result<void> stream(std::size_t size_index, std::size_t row, std::size_t round) {
    const std::size_t bytes = plan_.stream_sizes[size_index], count = streamed_messages(bytes);
    MessagePath& path = *paths_[first_ring + row - first_ring_stream];
    std::memset(target_.data(), 0, bytes);
    Result<void> done;
    const double ns = side_.burst([&] {
      for (std::size_t i = 0; i < count && done; ++i)
        done = side_.index() == 0 ? path.send(source_.data(), bytes)
                                  : path.receive(target_.data(), bytes);
      side_.meet();
    });
    if (!done) return done;
    if (side_.index() == 1) return check(bytes, "stream");
    results_.stream.record(size_index * plan_.stream_rows() + row, round,
                           static_cast<double>(bytes * count) / ns);
    return {};
  }

  Side& side_;
  Results& results_;
  const Plan& plan_;
  Buffer source_, expected_, target_, put_;
  Attachment hold_;
  std::byte* lines_[2] = {};
  std::vector<std::byte*> rings_;  ///< two for each cell size
  std::byte* copied_ = nullptr;
  std::byte* in_pool_ = nullptr;  ///< this side's memory in the pool for messages to send
  std::vector<std::unique_ptr<MessagePath>> paths_;  ///< by variant
};

std::vector<Column> columns_of(const Plan& plan, std::vector<std::string> first) {
  std::vector<Column> columns = {{"bytes"}};
  for (std::string& name : first) columns.push_back({std::move(name), 1});
  for (const std::uint64_t cell : plan.cells) columns.push_back({ring_name(cell), 1});
  columns.push_back({"ours", 1});
  columns.push_back({"published/ours", 2});
  return columns;
}

void report_latency(const Results& results, Report& report) {
  const Plan& plan = results.plan;
  Table table{"one-way latency in ns, medians", columns_of(plan, {"limit"}), {}};
  for (std::size_t i = 0; i < plan.latency_sizes.size(); ++i) {
    std::vector<Cell> row = {static_cast<double>(plan.latency_sizes[i])};
    const auto median = [&](std::size_t variant) {
      return results.latency.median(i * plan.variants() + variant);
    };
    for (std::size_t variant = 0; variant < plan.variants(); ++variant)
      row.push_back(cell(median(variant)));
    row.push_back(ratio(median(first_ring), median(plan.ours())));
    table.rows.push_back(std::move(row));
  }
  report.add(std::move(table));
}

void report_get(const Results& results, Report& report) {
  const Plan& plan = results.plan;
  if (plan.get_sizes.empty()) return;
  Table table{"from private memory and from the pool, sent again or stored anew: ns one way",
              {{"bytes"},
               {"private"},
               {"in the pool"},
               {"ratio", 2},
               {"private, stored"},
               {"in the pool, stored"},
               {"ratio", 2}},
              {}};
  for (std::size_t i = 0; i < plan.get_sizes.size(); ++i) {
    const auto median = [&](Origin origin) {
      return results.rendezvous_get.median(i * origin_count + origin);
    };
    table.rows.push_back({static_cast<double>(plan.get_sizes[i]), cell(median(private_memory)),
                          cell(median(pool_memory)),
                          ratio(median(private_memory), median(pool_memory)),
                          cell(median(private_put)), cell(median(pool_put)),
                          ratio(median(private_put), median(pool_put))});
  }
  report.add(std::move(table));
}

void report_stream(const Results& results, Report& report) {
  const Plan& plan = results.plan;
  Table table{"streaming in GB/s, medians; the limit is the slower of the two copies, each alone",
              columns_of(plan, {"copy in", "copy out"}),
              {}};
  for (std::size_t i = 0; i < plan.stream_sizes.size(); ++i) {
    std::vector<Cell> row = {static_cast<double>(plan.stream_sizes[i])};
    const auto median = [&](std::size_t which) {
      return results.stream.median(i * plan.stream_rows() + which);
    };
    for (std::size_t which = 0; which < plan.stream_rows(); ++which)
      row.push_back(cell(median(which)));
    row.push_back(ratio(median(first_ring_stream), median(plan.ours_stream())));
    table.rows.push_back(std::move(row));
  }
  report.add(std::move(table));
}

void add_figures(const Results& results, coherence::Mode mode, Report& report) {
  const Plan& plan = results.plan;
  const std::string name = coherence::mode_name(mode);
  const auto series = [&](std::size_t variant) {
    if (variant == plan.ours()) return "Penstock " + name + ", without MPI";
    return ring_name(plan.cells[variant - first_ring]) + ", " + name;
  };
  for (std::size_t i = 0; i < plan.latency_sizes.size(); ++i)
    for (std::size_t variant = 0; variant < plan.variants(); ++variant)
      report.add({.series = variant == bare ? "raw limit, " + name : series(variant),
                  .op = "latency",
                  .metric = "latency_us",
                  .bytes = plan.latency_sizes[i],
                  .procs = 2},
                 results.latency.values(i * plan.variants() + variant), 1e-3);
  for (std::size_t i = 0; i < plan.stream_sizes.size(); ++i)
    for (std::size_t row = 0; row < plan.stream_rows(); ++row)
      report.add({.series = row == copy_in    ? "copy into the pool, " + name
                            : row == copy_out ? "copy out of the pool, " + name
                                              : series(first_ring + row - first_ring_stream),
                  .op = "bandwidth",
                  .metric = "bandwidth_MBps",
                  .bytes = plan.stream_sizes[i],
                  .procs = 2},
                 results.stream.values(i * plan.stream_rows() + row), 1e3);
}

Result<Report> measure(const Options& options, const Plan& plan, coherence::Mode mode) {
  Results results(plan, options.rounds);
  PENSTOCK_TRY(run_two_sides<Bench>(options, mode, options.rounds, results, options.one_node));
  Report report("ring");
  report.note("mode", coherence::mode_name(mode));
  report.note("rounds", static_cast<double>(options.rounds));
  report.note("plain cached hand-over ns", cell(results.placement.median(0)));
  report_latency(results, report);
  report_get(results, report);
  report_stream(results, report);
  add_figures(results, mode, report);
  return report;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock::bench;
  Options options;
  Plan plan;
  std::vector<std::size_t> sizes;
  options.size = "128M";
  options.modes = {"software", "hardware"};
  Program program{
      "The published ring, the limit and ours: latency and bandwidth between two processes"};
  program.add(options);
  program.add("--sizes", sizes, "bytes of the messages, in place of the usual ones",
              {{1, 1 << 23}});
  program.add("--cells", plan.cells, "bytes of a cell of the published ring", {{64, 1 << 20}});
  if (const auto status = program.parse(argc, argv)) return *status;
  if (!sizes.empty()) plan.measure(sizes);
  return run_modes(options, [&](auto mode) { return measure(options, plan, mode); });
}
