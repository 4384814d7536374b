#include "bench/limits.hpp"

#include <array>
#include <cstring>
#include <optional>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "bench/bench_pool.hpp"
#include "bench/buffer.hpp"
#include "bench/raw_lines.hpp"
#include "bench/samples.hpp"
#include "bench/two_sides.hpp"

namespace penstock::bench {
namespace {

constexpr std::array<std::size_t, 6> handed_over = {8, 56, 256, 1 << 10, 4 << 10, 64 << 10};
constexpr std::array<std::size_t, 4> copied = {8, 4 << 10, 64 << 10, 1 << 20};
constexpr std::size_t largest_message = handed_over.back(), largest_copy = copied.back();

enum Copy : std::size_t { publishing, observing_new, observing_again, cached, copy_count };
constexpr std::size_t placement_row = 0, word_row = 1, first_message_row = 2;
constexpr std::size_t first_copy_row = first_message_row + handed_over.size();
constexpr std::size_t first_past_row = first_copy_row + copied.size() * copy_count;
constexpr std::size_t row_count = first_past_row + handed_over.size();

int repetitions(std::size_t bytes) {
  return bytes <= 4096 ? 200 : bytes <= 65536 ? 40 : 6;
}

class Limits {
 public:
  Limits(Side& side, Samples& samples)
      : side_(side), samples_(samples), local_(largest_copy, 5), other_(largest_copy, 6) {}

  Result<void> open(const std::string& spec) {
    hold_ = PENSTOCK_TRY(Attachment::open(spec, side_.index()));
    const std::uint64_t lines = RawLines::bytes(largest_message);
    const std::uint64_t bytes = 128 + 2 * lines + largest_copy;
    auto made = side_.index() == 0 ? hold_.arena->create("limits.area", bytes,
                                                         {.lifetime = arena::Lifetime::process})
                                   : Result<arena::Object>(arena::Object{});
    const std::uint64_t offset = side_.exchange(made ? made->offset : 0);
    if (!made) return unexpected(made.error());
    auto* area =
        static_cast<std::byte*>(hold_.pool->at(side_.index() == 0 ? made->offset : offset, bytes));
    if (area == nullptr || area == hold_.pool->base())
      return fail(ErrorCode::no_space, "side 0 could not make the measured memory");
    words_ = area;
    copies_ = area + 128 + 2 * lines;
    std::byte* const first = area + 128;
    path_ = std::make_unique<RawLines>(hold_.pool->memory(), first + side_.index() * lines,
                                       first + (1 - side_.index()) * lines);
    if (auto past = coherence::bind(coherence::Mode::software)) past_the_cache_ = *past;
    return {};
  }

  Result<void> round(std::size_t number) {
    const double placement = side_.plain_handover_ns();
    record(placement_row, number, placement);
    record(word_row, number, word_handover());
    for (std::size_t i = 0; i < handed_over.size(); ++i) {
      auto ns = message_handover(handed_over[i]);
      if (!ns) return unexpected(ns.error());
      record(first_message_row + i, number, *ns);
      if (!past_the_cache_ || !has_another_way(handed_over[i])) continue;
      path_->leave_by(*past_the_cache_);
      path_->leave_past_the_cache(true);
      ns = message_handover(handed_over[i]);
      path_->leave_past_the_cache(false);
      path_->leave_by(hold_.pool->memory());
      if (!ns) return unexpected(ns.error());
      record(first_past_row + i, number, *ns);
    }
    side_.meet();
    if (side_.index() == 0) measure_copies(number);
    side_.meet();
    return {};
  }

 private:
  /// Software mode has another way for single lines (through the cache), hardware mode for long
  /// messages.
  bool has_another_way(std::size_t bytes) const {
    const bool stale = hold_.pool->memory().loads_may_be_stale();
    return stale ? bytes <= coherence::tagged_bytes : !path_->tagged(bytes);
  }
  void record(std::size_t row, std::size_t round, double value) {
    if (side_.index() == 0) samples_.record(row, round, value);
  }

  /// One-way time of a word: each side has a line, and publishes one word of it.
  double word_handover() {
    constexpr int count = 200;
    const auto& memory = hold_.pool->memory();
    std::byte* const own = words_ + 64 * side_.index();
    const std::byte* const others = words_ + 64 * (1 - side_.index());
    const double ns = side_.burst([&] {
      for (int i = 0; i < count; ++i) {
        ++turn_;
        if (side_.index() == 0) publish(own);
        while (memory.observe_word(others) != turn_) {
        }
        if (side_.index() == 1) publish(own);
      }
    });
    return ns / (2.0 * count);
  }
  void publish(std::byte* own) {
    hold_.pool->memory().publish_word(own, turn_);
    hold_.pool->memory().store_fence();
  }

  Result<double> message_handover(std::size_t bytes) {
    const int count = repetitions(bytes);
    Result<void> done;
    const double ns = side_.burst([&] {
      for (int i = 0; done && i < count; ++i) {
        if (side_.index() == 0) done = path_->send(local_.data(), bytes);
        if (done) done = path_->receive(other_.data(), bytes);
        if (done && side_.index() == 1) done = path_->send(local_.data(), bytes);
      }
    });
    if (!done) return unexpected(done.error());
    return ns / (2.0 * count);
  }

  template <class Work>
  static double timed(int count, Work work) {
    std::uint64_t ns = 0;
    for (int i = 0; i < count; ++i) ns += work();
    return static_cast<double>(ns) / count;
  }

  /// One side copies while the other waits.
  void measure_copies(std::size_t number) {
    const auto& memory = hold_.pool->memory();
    for (std::size_t i = 0; i < copied.size(); ++i) {
      const std::size_t bytes = copied[i];
      const int count = repetitions(bytes);
      const auto row = [&](Copy copy) { return first_copy_row + i * copy_count + copy; };
      const auto since = [](std::uint64_t start) { return base::now_ns() - start; };
      const auto publish_all = [&] {
        memory.publish_bulk(copies_, local_.data(), bytes);
        memory.full_fence();
      };
      const auto observe_all = [&] { memory.observe_bulk(other_.data(), copies_, bytes); };
      record(row(publishing), number, timed(count, [&] {
               const std::uint64_t start = base::now_ns();
               publish_all();
               return since(start);
             }));
      record(row(observing_new), number, timed(count, [&] {
               publish_all();  // leaves no copy in this cache
               const std::uint64_t start = base::now_ns();
               observe_all();
               return since(start);
             }));
      record(row(observing_again), number, timed(count, [&] {
               observe_all();
               const std::uint64_t start = base::now_ns();
               observe_all();
               return since(start);
             }));
      record(row(cached), number, timed(count, [&] {
               const std::uint64_t start = base::now_ns();
               std::memcpy(other_.data(), local_.data(), bytes);
               return since(start);
             }));
    }
  }

  Side& side_;
  Samples& samples_;
  Buffer local_, other_;
  Attachment hold_;
  std::byte* words_ = nullptr;
  std::byte* copies_ = nullptr;
  std::unique_ptr<RawLines> path_;
  std::optional<coherence::Memory> past_the_cache_;  ///< stores as a mode without the cache does
  std::uint64_t turn_ = 0;
};

/// Consecutive device accesses, as docs/protocols count them: a hand-over is a publish and the look
/// that finds it, and one more for long messages; if caches are coherent, nothing has to leave
/// them.
std::optional<unsigned> serialized(coherence::Mode mode, unsigned accesses) {
  return mode == coherence::Mode::hardware ? std::nullopt : std::optional(accesses);
}

/// All figures, in microseconds.
void add_figures(const Samples& samples, coherence::Mode mode, Report& report) {
  const std::string own = std::string("pool, ") + coherence::mode_name(mode);
  const auto add = [&](Figure figure, std::size_t row) {
    figure.metric = "latency_us";
    report.add(std::move(figure), samples.values(row), 1e-3);
  };
  add({.series = "plain cached line", .op = "hand-over", .bytes = 8, .procs = 2}, placement_row);
  const auto of_handover = [mode](std::size_t bytes) {
    return serialized(mode, bytes <= RawLines::first_look_bytes ? 2 : 3);
  };
  add({.series = own + ", a word",
       .op = "hand-over",
       .bytes = 8,
       .procs = 2,
       .serialized = of_handover(8)},
      word_row);
  for (std::size_t i = 0; i < handed_over.size(); ++i) {
    const Figure figure{.op = "hand-over",
                        .bytes = handed_over[i],
                        .procs = 2,
                        .serialized = of_handover(handed_over[i])};
    Figure usual = figure, past = figure;
    usual.series = own + ", a message";
    past.series = own + ", past the cache";
    add(std::move(usual), first_message_row + i);
    add(std::move(past), first_past_row + i);
  }
  constexpr std::array<const char*, copy_count> names = {"publish", "observe, not cached",
                                                         "observe, cached", "memcpy, private"};
  for (std::size_t i = 0; i < copied.size(); ++i)
    for (std::size_t copy = 0; copy < copy_count; ++copy)
      add({.series = own + ", " + names[copy],
           .op = "copy",
           .bytes = copied[i],
           .serialized = copy == cached ? std::nullopt : serialized(mode, 1)},
          first_copy_row + i * copy_count + copy);
}

Report report_of(const Samples& samples, const Options& options, coherence::Mode mode) {
  Report report("limits");
  add_figures(samples, mode, report);
  report.note("mode", coherence::mode_name(mode));
  report.note("rounds", static_cast<double>(options.rounds));
  report.note("plain cached hand-over ns", cell(samples.median(placement_row)));
  report.note("a word, one way, ns", cell(samples.median(word_row)));
  Table messages{
      "hand-over of a message without a protocol, one way; hardware mode's long ones and software "
      "mode's single lines also by stores past the cache (decisions 0016, 0023)",
      {{"bytes"}, {"ns"}, {"past the cache"}},
      {}};
  for (std::size_t i = 0; i < handed_over.size(); ++i)
    messages.rows.push_back({static_cast<double>(handed_over[i]),
                             cell(samples.median(first_message_row + i)),
                             cell(samples.median(first_past_row + i))});
  report.add(std::move(messages));
  Table copies{
      "copies by one process, ns: to the device, from it when nothing of it is cached and "
      "when all is, between private buffers",
      {{"bytes"}, {"publish"}, {"observe new"}, {"observe again"}, {"memcpy"}},
      {}};
  for (std::size_t i = 0; i < copied.size(); ++i) {
    const auto median = [&](Copy copy) {
      return cell(samples.median(first_copy_row + i * copy_count + copy));
    };
    copies.rows.push_back({static_cast<double>(copied[i]), median(publishing),
                           median(observing_new), median(observing_again), median(cached)});
  }
  report.add(std::move(copies));
  return report;
}

}  // namespace

Result<Report> measure_limits(const Options& options, coherence::Mode mode) {
  Samples samples(row_count, options.rounds);
  PENSTOCK_TRY(run_two_sides<Limits>(options, mode, options.rounds, samples));
  return report_of(samples, options, mode);
}

}  // namespace penstock::bench
