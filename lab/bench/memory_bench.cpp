// The cost of memory without any protocol, in one process: dependent loads and sweeps of private
// memory and of a pool; stores of a given width written back by a given instruction (cMPI, figure
// 11); and the reader's half, which the paper omits: drop the copies, fence, load. Table 1 of cMPI
// consists of these.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "arch/arch.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "bench/bench_pool.hpp"
#include "bench/buffer.hpp"
#include "bench/memory_stores.hpp"
#include "bench/program.hpp"
#include "bench/supervisor.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t line = coherence::line_bytes;
constexpr std::size_t flushed_piece = 512;  ///< in each access of the flushed bandwidth, as in cMPI
constexpr std::size_t flushed_region = 1 << 20;  ///< of each thread
constexpr std::size_t chased = 20'000;           ///< loads in a round

struct Wanted {
  std::vector<std::string> what = {"chase", "sweep", "write-back", "reader", "flushed"};
  std::vector<std::size_t> sizes = {64, 256, 1024, 4096, 16384, 65536, 131072};
  std::vector<unsigned> threads = {1};
  bool has(const char* name) const {
    return std::find(what.begin(), what.end(), name) != what.end();
  }
};

/// Measured memory: private, or an object of a pool. Objects are ordinary memory of their owner.
struct Region {
  std::string name;
  std::byte* data;
  std::size_t bytes;
  bool in_pool;
};

class Bench {
 public:
  Bench(const Wanted& wanted, bool uncached) : wanted_(wanted), uncached_(uncached), random_(1) {}

  void add(Region region) {
    if (wanted_.has("chase")) link_randomly(region);
    regions_.push_back(std::move(region));
  }

  void round() {
    for (const Region& region : regions_) {
      if (wanted_.has("chase")) chase(region);
      if (wanted_.has("sweep"))
        for (const unsigned threads : wanted_.threads) sweep(region, threads);
      if (!region.in_pool) continue;
      if (wanted_.has("write-back")) write_back(region);
      if (wanted_.has("reader")) read_anew(region);
      if (wanted_.has("flushed"))
        for (const unsigned threads : wanted_.threads) flushed(region, threads);
    }
  }

  Report report() && {
    for (auto& [figure, values] : values_) report_.add(figure, std::move(values));
    return std::move(report_);
  }

 private:
  void record(Figure figure, double value) {
    for (auto& [known, values] : values_) {
      if (known.series != figure.series || known.op != figure.op || known.bytes != figure.bytes ||
          known.procs != figure.procs || known.group != figure.group)
        continue;
      values.push_back(value);
      return;
    }
    values_.emplace_back(std::move(figure), std::vector{value});
  }

  // ---- dependent loads

  /// Links all lines of the second half into one cycle; the first half is swept and flushed.
  void link_randomly(const Region& region) {
    std::byte* const first = region.data + region.bytes / 2;
    const std::size_t lines = region.bytes / 2 / line;
    std::vector<std::uint32_t> order(lines);
    for (std::size_t i = 0; i < lines; ++i) order[i] = static_cast<std::uint32_t>(i);
    std::shuffle(order.begin(), order.end(), random_);
    for (std::size_t i = 0; i < lines; ++i) {
      void* const next = first + order[(i + 1) % lines] * line;
      std::memcpy(first + order[i] * line, &next, sizeof next);
    }
    at_.push_back(first);
  }

  void chase(const Region& region) {
    std::byte*& at = at_[static_cast<std::size_t>(&region - regions_.data())];
    const std::uint64_t start = base::now_ns();
    for (std::size_t i = 0; i < chased; ++i) std::memcpy(&at, at, sizeof at);
    record({.series = region.name,
            .op = "dependent load",
            .metric = "latency_us",
            .bytes = 8,
            .serialized = region.in_pool ? std::optional(1u) : std::nullopt},
           static_cast<double>(base::now_ns() - start) / chased * 1e-3);
  }

  // ---- bandwidth

  /// MB/s of `threads` threads that each run `work(thread)` on `bytes` at the same time.
  template <class Work>
  double together(unsigned threads, std::size_t bytes, const Work& work) {
    std::atomic<unsigned> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> all;
    for (unsigned thread = 0; thread < threads; ++thread)
      all.emplace_back([&, thread] {
        pin(thread);
        ++ready;
        while (!go) std::this_thread::yield();
        work(thread);
      });
    while (ready < threads) std::this_thread::yield();
    const std::uint64_t start = base::now_ns();
    go = true;
    for (std::thread& each : all) each.join();
    return static_cast<double>(bytes) * threads / static_cast<double>(base::now_ns() - start) * 1e3;
  }

  static void pin(unsigned thread) {
    const std::vector<int> cpus = allowed_cpus();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[thread % cpus.size()], &set);
    sched_setaffinity(0, sizeof set, &set);
  }

  void sweep(const Region& region, unsigned threads) {
    const std::size_t each = region.bytes / 2 / threads / 4096 * 4096;
    const double read = together(
        threads, each, [&](unsigned thread) { sum_ += sum_of(region.data + thread * each, each); });
    record({.series = region.name, .op = "read", .metric = "bandwidth_MBps", .procs = threads},
           read);
    const double written = together(threads, each, [&](unsigned thread) {
      const Buffer block(4096, thread + 1);
      for (std::size_t at = 0; at < each; at += 4096)
        arch::select().nt_copy(region.data + thread * each + at, block.data(), 4096);
      arch::select().store_fence();
    });
    record({.series = region.name,
            .op = "write past the cache",
            .metric = "bandwidth_MBps",
            .procs = threads},
           written);
  }

  /// As cMPI measured: accesses of 512 B, each written back, each thread in its own region.
  void flushed(const Region& region, unsigned threads) {
    for (const arch::Flush flush : all_flushes) {
      const auto by = arch::flush_by(flush);
      if (!by || uncached_) continue;
      constexpr std::size_t times = 4;
      const double value = together(threads, times * flushed_region, [&](unsigned thread) {
        std::byte* const own = region.data + thread * flushed_region;
        for (std::size_t i = 0; i < times * flushed_region; i += flushed_piece) {
          std::byte* const at = own + i % flushed_region;
          std::memset(at, static_cast<int>(i / flushed_region), flushed_piece);
          by->write_back(at, flushed_piece);
          arch::select().store_fence();
        }
      });
      record({.series = region.name + fmt::format(", {}", arch::flush_name(flush)),
              .op = "512 B stored and written back",
              .metric = "bandwidth_MBps",
              .procs = threads},
             value);
    }
  }

  // ---- latency by instruction and width

  /// Measures one device access each, except for lines that caches hold.
  template <class Once>
  void time(Figure figure, std::size_t bytes, const Once& once,
            std::optional<unsigned> serialized = 1) {
    const int count = bytes <= 1024 ? 200 : bytes <= 16384 ? 40 : 8;
    once(0);
    const std::uint64_t start = base::now_ns();
    for (int i = 0; i < count; ++i) once(i);
    figure.metric = "latency_us";
    figure.bytes = bytes;
    figure.serialized = serialized;
    record(std::move(figure), static_cast<double>(base::now_ns() - start) / count * 1e-3);
  }

  void write_back(const Region& region) {
    const arch::Table& table = arch::select();
    for (const std::size_t bytes : wanted_.sizes) {
      for (const Store& store : stores()) {
        if (uncached_) {
          time({.series = store.name, .op = "store", .group = "uncached"}, bytes, [&](int i) {
            store.fill(region.data, bytes, i);
            table.store_fence();
          });
          continue;
        }
        for (const arch::Flush flush : all_flushes) {
          const auto by = arch::flush_by(flush);
          if (!by) continue;
          time({.series = store.name,
                .op = "store and write back",
                .group = arch::flush_name(flush)},
               bytes, [&](int i) {
                 store.fill(region.data, bytes, i);
                 by->write_back(region.data, bytes);
                 table.store_fence();
               });
        }
      }
      past_the_cache(region, bytes);
    }
  }

  void past_the_cache(const Region& region, std::size_t bytes) {
    const arch::Table& table = arch::select();
    time({.series = "whole lines", .op = "store and write back", .group = "past the cache"}, bytes,
         [&](int i) {
           alignas(64) std::byte block[line];
           std::memset(block, i, line);
           for (std::size_t at = 0; at < bytes; at += line) table.nt_line(region.data + at, block);
           table.store_fence();
         });
    time({.series = "words of 8 B", .op = "store and write back", .group = "past the cache"}, bytes,
         [&](int i) {
           for (std::size_t at = 0; at < bytes; at += 8)
             table.nt_word(region.data + at, static_cast<std::uint64_t>(i));
           table.store_fence();
         });
  }

  /// Drops lines that lie in this cache, and fetches them from the device.
  void read_anew(const Region& region) {
    const arch::Table& table = arch::select();
    for (const std::size_t bytes : wanted_.sizes) {
      for (const arch::Flush flush : {arch::Flush::clflush, arch::Flush::clflushopt}) {
        const auto by = arch::flush_by(flush);
        if (!by || uncached_) continue;
        time({.series = arch::flush_name(flush), .op = "drop, fence and load", .group = "reader"},
             bytes, [&](int) {
               by->invalidate(region.data, bytes);
               table.full_fence();
               sum_ += sum_of(region.data, bytes);
             });
      }
      time(
          {.series = "load only", .op = "drop, fence and load", .group = "reader"}, bytes,
          [&](int) { sum_ += sum_of(region.data, bytes); }, std::nullopt);
    }
  }

  static constexpr std::array all_flushes = {arch::Flush::clflush, arch::Flush::clflushopt,
                                             arch::Flush::clwb};

  const Wanted& wanted_;
  bool uncached_;
  std::mt19937_64 random_;
  std::vector<Region> regions_;
  std::vector<std::byte*> at_;  ///< the position of the chase in each region
  std::atomic<std::uint64_t> sum_{0};
  std::vector<std::pair<Figure, std::vector<double>>> values_;
  Report report_{"memory"};
};

/// An attachment with the measured object.
struct Hold {
  Attachment attachment;
  arena::Object object;
};

Result<Hold> hold_object(const Options& options, coherence::Mode mode, std::size_t bytes) {
  const auto size = PENSTOCK_TRY(options.size_bytes());
  auto attachment = PENSTOCK_TRY(Attachment::open_alone(options.pool, size, mode));
  auto object = PENSTOCK_TRY(attachment.arena->create(
      "memory-bench", bytes, {.lifetime = arena::Lifetime::process, .alignment = 4096}));
  return Hold{std::move(attachment), std::move(object)};
}

Result<Report> measure(const Options& options, const Wanted& wanted, coherence::Mode mode) {
  const auto bytes = PENSTOCK_TRY(options.size_bytes());
  const std::size_t region = bytes / 2 / 4096 * 4096;
  const std::size_t most = *std::max_element(wanted.threads.begin(), wanted.threads.end());
  const std::size_t largest = *std::max_element(wanted.sizes.begin(), wanted.sizes.end());
  if (region / 2 < std::max(most * flushed_region, largest))
    return fail(
        ErrorCode::no_space,
        "{} threads and sizes up to {} bytes do not fit into {} bytes: give a larger --size", most,
        largest, bytes);
  const Hold hold = PENSTOCK_TRY(hold_object(options, mode, region));
  Buffer own(region, 1);
  Bench bench(wanted, mode == coherence::Mode::uncached);
  bench.add({"main memory", own.data(), region, false});
  bench.add({"pool", hold.object.data, region, true});
  for (std::size_t i = 0; i < options.rounds; ++i) bench.round();
  return std::move(bench).report();
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock::bench;
  Options options;
  Wanted wanted;
  options.size = "256M";
  options.rounds = 5;
  Program program{
      "What main memory and a pool cost without a protocol: loads, sweeps, write-backs, reads "
      "anew"};
  program.add(options);
  program.add("--what", wanted.what, "chase, sweep, write-back, reader, flushed",
              {"chase", "sweep", "write-back", "reader", "flushed"});
  program.add("--sizes", wanted.sizes, "bytes of the write-backs and reads: multiples of 64",
              {{64, 1 << 22}});
  program.add("--threads", wanted.threads, "of sweeps and flushed accesses", {{1, 256}});
  if (const auto status = program.parse(argc, argv)) return *status;
  for (std::size_t& size : wanted.sizes) size = (size + 63) / 64 * 64;
  return run_modes(options, [&](auto mode) { return measure(options, wanted, mode); });
}
