// The provider by itself, without MPI: libfabric's tagged messages between two processes over
// Penstock, compared with the bare hand-over through the pool (the limit) and libfabric's own shm
// and tcp providers, measured in turn.
#include <array>
#include <cstring>

#include "base/format.hpp"
#include "bench/bench_pool.hpp"
#include "bench/buffer.hpp"
#include "bench/fi_environment.hpp"
#include "bench/fi_port.hpp"
#include "bench/raw_lines.hpp"
#include "bench/samples.hpp"
#include "bench/two_sides.hpp"

namespace penstock::bench {
namespace {

constexpr std::array<std::size_t, 9> sizes = {8,        64,       256,       1 << 10, 4 << 10,
                                              16 << 10, 64 << 10, 256 << 10, 1 << 20};
constexpr std::size_t largest = sizes.back();
constexpr std::size_t largest_bare = 64 << 10;

enum Variant : std::size_t { bare, penstock, shm, tcp, variant_count };
constexpr std::array<const char*, variant_count> names = {"limit", "penstock", "shm", "tcp"};

int ping_pongs(std::size_t bytes) {
  return bytes <= 1024 ? 200 : bytes <= 16384 ? 50 : bytes <= 65536 ? 20 : 5;
}

struct Results {
  explicit Results(std::size_t rounds)
      : latency(sizes.size() * variant_count, rounds), placement(1, rounds) {}
  Samples latency;    ///< ns one way
  Samples placement;  ///< ns
};

class Bench {
 public:
  Bench(Side& side, Results& results)
      : side_(side),
        results_(results),
        source_(largest, side.index()),
        expected_(largest, 1 - side.index()),
        target_(largest, 7) {}

  Result<void> open(const std::string& spec) {
    use_pool(spec, "fi-bench", side_.index());
    hold_ = PENSTOCK_TRY(Attachment::open(spec, side_.index()));
    if (auto opened = open_bare(); !opened) return opened;
    for (const Variant variant : {penstock, shm, tcp})
      if (auto opened = open_port(variant); !opened) return opened;
    return {};
  }

  Result<void> round(std::size_t number) {
    const double placement = side_.plain_handover_ns();
    if (side_.index() == 0) results_.placement.record(0, number, placement);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      for (std::size_t variant = 0; variant < variant_count; ++variant)
        if (auto done = ping_pong(i, variant, number); !done)
          return fail(done.error().code, "{}, {} bytes: {}", names[variant], sizes[i],
                      done.error().message);
    return {};
  }

 private:
  Result<void> open_bare() {
    const std::uint64_t each = RawLines::bytes(largest_bare);
    std::byte* area = nullptr;
    if (side_.index() == 0) {
      auto made =
          hold_.arena->create("fi-bench.area", 2 * each, {.lifetime = arena::Lifetime::process});
      side_.exchange(made ? made->offset : 0);
      if (!made) return unexpected(made.error());
      area = made->data;
    } else {
      const std::uint64_t offset = side_.exchange(0);
      area = static_cast<std::byte*>(hold_.pool->at(offset, 2 * each));
      if (offset == 0 || area == nullptr)
        return fail(ErrorCode::no_space, "side 0 could not make the measured lines");
    }
    paths_[bare] = std::make_unique<RawLines>(hold_.pool->memory(), area + side_.index() * each,
                                              area + (1 - side_.index()) * each);
    return {};
  }

  /// Skips a libfabric provider that is not available; Penstock must be available.
  Result<void> open_port(Variant variant) {
    auto port = FiPort::open(names[variant]);
    const bool both = side_.exchange(port ? 1 : 0) == 1 && port;
    if (!both) {
      if (variant != penstock && (port || port.error().code == ErrorCode::unavailable)) return {};
      if (!port) return unexpected(port.error());
      return fail(ErrorCode::unavailable, "the other side could not open {}", names[variant]);
    }
    if (auto connected = (*port)->connect(side_.exchange((*port)->name())); !connected)
      return connected;
    side_.meet();
    paths_[variant] = std::move(*port);
    return {};
  }

  Result<void> post(std::size_t variant, std::size_t bytes) {
    if (variant == bare) return {};
    return static_cast<FiPort&>(*paths_[variant]).post(target_.data(), bytes);
  }

  /// Side 1 has posted a receive; each side posts its next receive before it sends.
  Result<void> play(std::size_t variant, std::size_t bytes, int count) {
    MessagePath& path = *paths_[variant];
    for (int i = 0; i < count; ++i) {
      Result<void> done;
      if (side_.index() == 0) {
        done = post(variant, bytes);
        if (done) done = path.send(source_.data(), bytes);
      }
      if (done) done = path.receive(target_.data(), bytes);
      if (done && side_.index() == 1) {
        if (i + 1 < count) done = post(variant, bytes);
        if (done) done = path.send(source_.data(), bytes);
      }
      if (!done) return done;
    }
    return {};
  }

  Result<void> ping_pong(std::size_t size_index, std::size_t variant, std::size_t round) {
    const std::size_t bytes = sizes[size_index];
    if (!paths_[variant] || (variant == bare && bytes > largest_bare)) return {};
    std::memset(target_.data(), 0, bytes);
    const int count = ping_pongs(bytes);
    Result<void> done;
    double ns = 0;
    for (const int times : {count / 10 + 2, count}) {
      if (side_.index() == 1) done = post(variant, bytes);
      if (!done) return done;
      ns = side_.burst([&] { done = play(variant, bytes, times); });
      if (!done) return done;
      if (std::memcmp(target_.data(), expected_.data(), bytes) != 0)
        return fail(ErrorCode::internal, "a message arrived damaged");
    }
    if (side_.index() == 0)
      results_.latency.record(size_index * variant_count + variant, round, ns / (2.0 * count));
    return done;
  }

  Side& side_;
  Results& results_;
  Buffer source_, expected_, target_;
  Attachment hold_;
  std::unique_ptr<MessagePath> paths_[variant_count];
};

Report report_of(const Results& results, const Options& options, coherence::Mode mode) {
  Report report("provider");
  report.note("mode", coherence::mode_name(mode));
  report.note("rounds", static_cast<double>(options.rounds));
  report.note("plain cached hand-over ns", cell(results.placement.median(0)));
  Table table{"libfabric tagged ping-pong, one way in ns, medians",
              {{"bytes"},
               {"limit"},
               {"penstock"},
               {"shm"},
               {"tcp"},
               {"penstock/limit", 2},
               {"shm/penstock", 2},
               {"tcp/penstock", 2}},
              {}};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto median = [&](Variant variant) {
      return results.latency.median(i * variant_count + variant);
    };
    table.rows.push_back(
        {static_cast<double>(sizes[i]), cell(median(bare)), cell(median(penstock)),
         cell(median(shm)), cell(median(tcp)), ratio(median(penstock), median(bare)),
         ratio(median(shm), median(penstock)), ratio(median(tcp), median(penstock))});
  }
  const std::string own = std::string("Penstock ") + coherence::mode_name(mode);
  const std::array<std::string, variant_count> series = {
      std::string("raw limit, ") + coherence::mode_name(mode), own, "libfabric shm", "TCP"};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (std::size_t variant = 0; variant < variant_count; ++variant)
      report.add({.series = series[variant],
                  .op = "latency",
                  .metric = "latency_us",
                  .bytes = sizes[i],
                  .group = "libfabric, without MPI",
                  .procs = 2},
                 results.latency.values(i * variant_count + variant), 1e-3);
  report.add(std::move(table));
  return report;
}

Result<Report> measure(const Options& options, coherence::Mode mode) {
  Results results(options.rounds);
  PENSTOCK_TRY(run_two_sides<Bench>(options, mode, options.rounds, results));
  return report_of(results, options, mode);
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock::bench;
  Options options;
  options.size = "64M";
  options.modes = {"software", "hardware"};
  find_provider(argv[0]);
  return run_benchmark("The libfabric provider by itself: Penstock beside its limit, shm and tcp",
                       options, argc, argv, measure);
}
