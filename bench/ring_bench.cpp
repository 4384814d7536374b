// Messages from one process to another: the bare lines (the limit), the ring as cMPI publishes it,
// and ours, measured in turn. One-way latency by ping-pong, and streaming bandwidth.
#include <array>
#include <cstring>

#include "base/format.hpp"
#include "bench/bench_pool.hpp"
#include "bench/buffer.hpp"
#include "bench/cmpi_ring.hpp"
#include "bench/endpoint_path.hpp"
#include "bench/raw_lines.hpp"
#include "bench/samples.hpp"
#include "bench/two_sides.hpp"

namespace penstock::bench {
namespace {

constexpr std::array<std::size_t, 8> latency_sizes = {8,       32,      64,       256,
                                                      1 << 10, 4 << 10, 16 << 10, 64 << 10};
constexpr std::array<std::size_t, 7> stream_sizes = {256,      1 << 10,  2 << 10, 4 << 10,
                                                     16 << 10, 64 << 10, 1 << 20};
constexpr std::array<std::size_t, 4> get_sizes = {64 << 10, 256 << 10, 1 << 20, 4 << 20};
constexpr std::size_t largest = get_sizes.back();
constexpr std::size_t streamed = 1 << 20;       ///< the buffer that streams go round in
constexpr std::size_t stream_bytes = 16 << 20;  ///< in one burst
constexpr std::uint64_t cell_bytes = 64 << 10;  ///< of the published ring

enum Variant : std::size_t { bare, paper, ours, variant_count };
/// Streaming has no bare variant; instead it measures the two copies that it cannot avoid.
enum StreamRow : std::size_t { copy_in, copy_out, paper_stream, ours_stream, stream_row_count };

/// Memory of a message to send, and whether its user has just stored it.
enum Origin : std::size_t { private_memory, pool_memory, private_put, pool_put, origin_count };

int ping_pongs(std::size_t bytes) {
  return bytes <= 256 ? 300 : bytes <= 4096 ? 100 : 25;
}

struct Results {
  explicit Results(std::size_t rounds)
      : latency(latency_sizes.size() * variant_count, rounds),
        stream(stream_sizes.size() * stream_row_count, rounds),
        rendezvous_get(get_sizes.size() * origin_count, rounds),
        placement(1, rounds) {}
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
        source_(largest, side.index()),
        expected_(largest, 1 - side.index()),
        target_(largest, 7),
        put_(largest, 8) {}

  Result<void> open(const std::string& spec, bool one_node) {
    hold_ = PENSTOCK_TRY(
        Attachment::open(spec, side_.index(), one_node ? std::optional(0u) : std::nullopt));
    auto area = PENSTOCK_TRY(shared_area());
    carve(area);
    const auto memory = PENSTOCK_TRY(paper_memory(hold_.pool->memory().mode()));
    paths_[paper] = std::make_unique<CmpiPath>(
        CmpiRing(memory, rings_[side_.index()], cell_bytes),
        CmpiRing(memory, rings_[1 - side_.index()], cell_bytes), cell_bytes);
    paths_[bare] = std::make_unique<RawLines>(hold_.pool->memory(), lines_[side_.index()],
                                              lines_[1 - side_.index()]);
    return open_endpoint();
  }

  Result<void> round(std::size_t number) {
    const double placement = side_.plain_handover_ns();
    if (side_.index() == 0) results_.placement.record(0, number, placement);
    for (std::size_t i = 0; i < latency_sizes.size(); ++i)
      for (std::size_t variant = 0; variant < variant_count; ++variant)
        if (auto done = ping_pong(i, variant, number); !done) return done;
    for (std::size_t i = 0; i < get_sizes.size(); ++i)
      for (std::size_t origin = 0; origin < origin_count; ++origin)
        if (auto done = ping_pong_from(i, origin, number); !done) return done;
    for (std::size_t i = 0; i < stream_sizes.size(); ++i) {
      copies(i, number);
      for (const StreamRow row : {paper_stream, ours_stream})
        if (auto done = stream(i, row, number); !done) return done;
    }
    return {};
  }

 private:
  /// Side 0 allocates the memory that the bare lines, the published rings and the copies use.
  Result<std::byte*> shared_area() {
    const std::uint64_t bytes = 2 * RawLines::bytes(latency_sizes.back()) +
                                2 * CmpiRing::bytes(cell_bytes) + 3 * largest + 3 * 4096;
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
      area += RawLines::bytes(latency_sizes.back());
    }
    for (auto& ring : rings_) {
      ring = area;
      area += CmpiRing::bytes(cell_bytes);
    }
    copied_ = area;
    in_pool_ = area + (1 + side_.index()) * largest;
  }

  Result<void> open_endpoint() {
    auto path = PENSTOCK_TRY(EndpointPath::open(*hold_.arena));
    const transport::Address mine = path->address();
    transport::Address theirs = mine;
    theirs.slot = static_cast<std::uint32_t>(side_.exchange(mine.slot));
    theirs.generation = static_cast<std::uint32_t>(side_.exchange(mine.generation));
    if (auto connected = path->connect(theirs); !connected) return connected;
    paths_[ours] = std::move(path);
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
    const std::size_t bytes = latency_sizes[size_index];
    MessagePath& path = *paths_[variant];
    std::memset(target_.data(), 0, bytes);
    Result<void> done = play(path, bytes, ping_pongs(bytes) / 10 + 1);
    if (!done) return done;
    if (done = check(bytes, "ping-pong"); !done) return done;
    const int count = ping_pongs(bytes);
    const double ns = side_.burst([&] { done = play(path, bytes, count); });
    if (side_.index() == 0)
      results_.latency.record(size_index * variant_count + variant, round, ns / (2.0 * count));
    return done;
  }

  /// The user stores each message before it sends it, or sends the same bytes again.
  Result<void> ping_pong_from(std::size_t size_index, std::size_t origin, std::size_t round) {
    const std::size_t bytes = get_sizes[size_index];
    const bool stores = origin == private_put || origin == pool_put;
    std::byte* from = origin == pool_memory || origin == pool_put ? in_pool_ : put_.data();
    std::memcpy(from, source_.data(), bytes);
    MessagePath& path = *paths_[ours];
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
    const std::size_t bytes = stream_sizes[size_index];
    const std::size_t pieces = streamed / bytes, count = stream_bytes / bytes;
    const coherence::Memory& memory = hold_.pool->memory();
    for (const StreamRow row : {copy_in, copy_out}) {
      const bool works = side_.index() == (row == copy_in ? 0u : 1u);
      const double ns = side_.burst([&] {
        if (!works) return;
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t at = i % pieces * bytes;
          if (row == copy_in) {
            memory.publish_bulk(copied_ + at, source_.data() + at, bytes);
            memory.store_fence();
          } else {
            memory.observe_bulk(target_.data() + at, copied_ + at, bytes);
          }
        }
      });
      if (works)
        results_.stream.record(size_index * stream_row_count + row, round,
                               static_cast<double>(stream_bytes) / ns);
      side_.meet();
    }
  }

  Result<void> stream(std::size_t size_index, StreamRow row, std::size_t round) {
    const std::size_t bytes = stream_sizes[size_index], count = stream_bytes / bytes;
    MessagePath& path = *paths_[row == paper_stream ? paper : ours];
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
    results_.stream.record(size_index * stream_row_count + row, round,
                           static_cast<double>(stream_bytes) / ns);
    return {};
  }

  Side& side_;
  Results& results_;
  Buffer source_, expected_, target_, put_;
  Attachment hold_;
  std::byte* lines_[2] = {};
  std::byte* rings_[2] = {};
  std::byte* copied_ = nullptr;
  std::byte* in_pool_ = nullptr;  ///< this side's pool memory for messages to send
  std::unique_ptr<MessagePath> paths_[variant_count];
};

void report_latency(const Results& results, Report& report) {
  Table table{"one-way latency in ns, medians",
              {{"bytes"},
               {"limit"},
               {"published ring"},
               {"ours"},
               {"published/ours", 2},
               {"ours/limit", 2}},
              {}};
  for (std::size_t i = 0; i < latency_sizes.size(); ++i) {
    const auto median = [&](Variant variant) {
      return results.latency.median(i * variant_count + variant);
    };
    table.rows.push_back({static_cast<double>(latency_sizes[i]), cell(median(bare)),
                          cell(median(paper)), cell(median(ours)),
                          ratio(median(paper), median(ours)), ratio(median(ours), median(bare))});
  }
  report.add(std::move(table));
}

void report_get(const Results& results, Report& report) {
  Table table{"from private memory and from the pool, sent again or stored anew: ns one way",
              {{"bytes"},
               {"private"},
               {"in the pool"},
               {"ratio", 2},
               {"private, stored"},
               {"in the pool, stored"},
               {"ratio", 2}},
              {}};
  for (std::size_t i = 0; i < get_sizes.size(); ++i) {
    const auto median = [&](Origin origin) {
      return results.rendezvous_get.median(i * origin_count + origin);
    };
    table.rows.push_back(
        {static_cast<double>(get_sizes[i]), cell(median(private_memory)), cell(median(pool_memory)),
         ratio(median(private_memory), median(pool_memory)), cell(median(private_put)),
         cell(median(pool_put)), ratio(median(private_put), median(pool_put))});
  }
  report.add(std::move(table));
}

void report_stream(const Results& results, Report& report) {
  Table table{"streaming in GB/s, medians; the limit is the slower of the two copies, each alone",
              {{"bytes"},
               {"copy in", 1},
               {"copy out", 1},
               {"published ring", 1},
               {"ours", 1},
               {"ours/published", 2},
               {"ours/limit", 2}},
              {}};
  for (std::size_t i = 0; i < stream_sizes.size(); ++i) {
    const auto median = [&](StreamRow row) {
      return results.stream.median(i * stream_row_count + row);
    };
    const auto limit = std::min(median(copy_in), median(copy_out));
    table.rows.push_back(
        {static_cast<double>(stream_sizes[i]), cell(median(copy_in)), cell(median(copy_out)),
         cell(median(paper_stream)), cell(median(ours_stream)),
         ratio(median(ours_stream), median(paper_stream)), ratio(median(ours_stream), limit)});
  }
  report.add(std::move(table));
}

Result<Report> measure(const Options& options, coherence::Mode mode) {
  Results results(options.rounds);
  PENSTOCK_TRY(run_two_sides<Bench>(options, mode, options.rounds, results, options.one_node));
  Report report("ring");
  report.note("mode", coherence::mode_name(mode));
  report.note("rounds", static_cast<double>(options.rounds));
  report.note("plain cached hand-over ns", cell(results.placement.median(0)));
  report_latency(results, report);
  report_get(results, report);
  report_stream(results, report);
  return report;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock::bench;
  Options options;
  options.size = "64M";
  options.modes = {"software", "hardware"};
  return run_benchmark(
      "The published ring, the limit and ours: latency and bandwidth between two processes",
      options, argc, argv, measure);
}
