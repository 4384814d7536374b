// Put and get through libfabric, while the origin does nothing else: memory in the pool compared
// with the bare copy (the limit), with private memory through its owner, and with libfabric's shm.
#include <array>
#include <cstring>

#include "base/format.hpp"
#include "bench/bench_pool.hpp"
#include "bench/buffer.hpp"
#include "bench/fi_environment.hpp"
#include "bench/fi_port.hpp"
#include "bench/samples.hpp"
#include "bench/two_sides.hpp"

namespace penstock::bench {
namespace {

constexpr std::array<std::size_t, 6> sizes = {8, 256, 4 << 10, 64 << 10, 256 << 10, 1 << 20};
constexpr std::size_t largest = sizes.back();

enum Variant : std::size_t { bare, in_pool, owned, shm, variant_count };
constexpr std::array<const char*, variant_count> names = {"limit", "pool", "private", "shm"};
enum Direction : std::size_t { putting, getting, direction_count };

int repetitions(std::size_t bytes) {
  return bytes <= 4096 ? 200 : bytes <= 65536 ? 40 : 6;
}

std::size_t row(std::size_t size, std::size_t direction, std::size_t variant) {
  return (size * direction_count + direction) * variant_count + variant;
}

/// Side 0 is the origin; side 1 owns the memory.
class Bench {
 public:
  Bench(Side& side, Samples& samples)
      : side_(side), samples_(samples), local_(largest, 3), owned_(largest, 4) {}

  Result<void> open(const std::string& spec) {
    use_pool(spec, "rma-bench", side_.index());
    hold_ = PENSTOCK_TRY(Attachment::open(spec, side_.index()));
    if (side_.index() == 1) {
      auto made =
          hold_.arena->create("rma-bench.area", largest, {.lifetime = arena::Lifetime::process});
      side_.exchange(made ? made->offset : 0);
      if (!made) return unexpected(made.error());
      area_ = made->data;
    } else {
      area_ = static_cast<std::byte*>(hold_.pool->at(side_.exchange(0), largest));
      if (area_ == hold_.pool->base() || area_ == nullptr)
        return fail(ErrorCode::no_space, "side 1 could not make the measured memory");
    }
    if (auto opened = open_port(in_pool, "penstock", area_); !opened) return opened;
    if (auto opened = open_port(owned, "penstock", owned_.data()); !opened) return opened;
    return open_port(shm, "shm", owned_.data());
  }

  Result<void> round(std::size_t number) {
    for (std::size_t size = 0; size < sizes.size(); ++size)
      for (std::size_t direction = 0; direction < direction_count; ++direction)
        for (std::size_t variant = 0; variant < variant_count; ++variant)
          if (auto done = measure(size, direction, variant, number); !done)
            return fail(done.error().code, "{}, {} bytes: {}", names[variant], sizes[size],
                        done.error().message);
    return {};
  }

 private:
  /// Skips libfabric's shm if it is absent.
  Result<void> open_port(Variant variant, const char* provider, std::byte* memory) {
    auto port = FiPort::open(provider, true);
    const bool both = side_.exchange(port ? 1 : 0) == 1 && port;
    if (!both) {
      if (variant == shm) return {};
      return fail(ErrorCode::unavailable, "{}",
                  port ? "the other side failed" : port.error().message);
    }
    if (auto connected = (*port)->connect(side_.exchange((*port)->name())); !connected)
      return connected;
    auto exposed = PENSTOCK_TRY((*port)->expose(memory, largest));
    targets_[variant].key = side_.exchange(exposed.key);
    targets_[variant].address = side_.exchange(exposed.address);
    ports_[variant] = std::move(*port);
    return {};
  }

  Result<void> once(std::size_t variant, std::size_t direction, std::size_t bytes) {
    if (variant != bare) {
      FiPort& port = *ports_[variant];
      return direction == putting ? port.put(local_.data(), bytes, targets_[variant])
                                  : port.get(local_.data(), bytes, targets_[variant]);
    }
    const auto& memory = hold_.pool->memory();
    if (direction == getting) {
      memory.observe_bulk(local_.data(), area_, bytes);
    } else if (bytes == 8) {
      std::uint64_t word;
      std::memcpy(&word, local_.data(), sizeof word);
      memory.publish_word(area_, word);
      memory.full_fence();
    } else {
      memory.publish_bulk(area_, local_.data(), bytes);
      memory.full_fence();
    }
    return {};
  }

  Result<void> measure(std::size_t size, std::size_t direction, std::size_t variant,
                       std::size_t round) {
    if (variant != bare && !ports_[variant]) return {};
    const int count = repetitions(sizes[size]);
    Result<void> done;
    side_.meet();
    ++turn_;
    if (side_.index() == 1) {
      while (side_.signalled() < turn_)
        if (variant != bare && variant != in_pool) ports_[variant]->progress();
      return {};
    }
    for (int i = 0; done && i < 4; ++i) done = once(variant, direction, sizes[size]);
    const std::uint64_t start = base::now_ns();
    for (int i = 0; done && i < count; ++i) done = once(variant, direction, sizes[size]);
    const auto ns = static_cast<double>(base::now_ns() - start);
    side_.signal(turn_);
    samples_.record(row(size, direction, variant), round, ns / count);
    return done;
  }

  Side& side_;
  Samples& samples_;
  Buffer local_, owned_;
  Attachment hold_;
  std::byte* area_ = nullptr;
  std::uint64_t turn_ = 0;
  std::unique_ptr<FiPort> ports_[variant_count];
  FiPort::Exposed targets_[variant_count];
};

void add_figures(const Samples& samples, coherence::Mode mode, Report& report) {
  const std::string name = coherence::mode_name(mode);
  const std::array<std::string, variant_count> series = {"raw limit, " + name, "Penstock " + name,
                                                         "Penstock " + name + ", private target",
                                                         "libfabric shm"};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (std::size_t direction = 0; direction < direction_count; ++direction)
      for (std::size_t variant = 0; variant < variant_count; ++variant)
        report.add({.series = series[variant],
                    .op = direction == putting ? "put" : "get",
                    .metric = "latency_us",
                    .bytes = sizes[i],
                    .group = "libfabric, without MPI",
                    .procs = 2},
                   samples.values(row(i, direction, variant)), 1e-3);
}

Report report_of(const Samples& samples, const Options& options, coherence::Mode mode) {
  Report report("one-sided");
  report.note("mode", coherence::mode_name(mode));
  report.note("rounds", static_cast<double>(options.rounds));
  for (std::size_t direction = 0; direction < direction_count; ++direction) {
    Table table{
        direction == putting ? "put until it is complete at the target, ns, medians"
                             : "get, ns, medians",
        {{"bytes"}, {"limit"}, {"pool"}, {"private"}, {"shm"}, {"pool/limit", 2}, {"shm/pool", 2}},
        {}};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto median = [&](Variant variant) {
        return samples.median(row(i, direction, variant));
      };
      table.rows.push_back({static_cast<double>(sizes[i]), cell(median(bare)),
                            cell(median(in_pool)), cell(median(owned)), cell(median(shm)),
                            ratio(median(in_pool), median(bare)),
                            ratio(median(shm), median(in_pool))});
    }
    report.add(std::move(table));
  }
  add_figures(samples, mode, report);
  return report;
}

Result<Report> measure(const Options& options, coherence::Mode mode) {
  Samples samples(sizes.size() * direction_count * variant_count, options.rounds);
  PENSTOCK_TRY(run_two_sides<Bench>(options, mode, options.rounds, samples));
  return report_of(samples, options, mode);
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock::bench;
  Options options;
  options.size = "64M";
  options.modes = {"software", "hardware"};
  find_provider(argv[0]);
  return run_benchmark("Put and get through the libfabric provider, beside their limit and shm",
                       options, argc, argv, measure);
}
