// Options of penstock bench stream: which values they accept, how they refuse others, and the
// resulting number of elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.hpp"
#include "bench/stream/results.hpp"
#include "bench/stream/stream.hpp"
#include "bench/stream/team.hpp"

namespace penstock::bench::stream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> names(const std::string& target, const TargetOptions& options = {}) {
  std::vector<std::string> found;
  const auto specs = parse_targets(target, options);
  EXPECT_TRUE(specs) << specs.error().message;
  if (specs)
    for (const TargetSpec& spec : *specs) found.push_back(spec.name());
  return found;
}

TEST(StreamTargetTexts, StandForSeries) {
  EXPECT_THAT(names("memory"), ElementsAre("memory, plain"));
  EXPECT_THAT(names("numa:3", {.stores = {Store::plain, Store::past_the_cache}, .modes = {}}),
              ElementsAre("numa:3, plain", "numa:3, nt"));
  EXPECT_THAT(names("pmem:/mnt"), ElementsAre("pmem, hoisted", "pmem, D_RW an element"));
  EXPECT_THAT(names("pmem+tx-nosnap:/mnt"), ElementsAre("pmem+tx-nosnap"));
  EXPECT_THAT(names("pool"),
              ElementsAre("pool, hardware, plain", "pool, software, nt", "pool, software, plain"));
  EXPECT_THAT(names("pool+observe"),
              ElementsAre("pool+observe, software, nt", "pool+observe, software, plain"));
  EXPECT_THAT(
      names("pool", {.stores = {Store::past_the_cache}, .modes = {coherence::Mode::uncached}}),
      ElementsAre("pool, uncached, plain"));
  EXPECT_THAT(names("pool+tx"), ElementsAre("pool+tx, hardware", "pool+tx, software"));
}

TEST(StreamTargetTexts, OfNothingAreRefused) {
  for (const char* bad : {"", "nuna:0", "numa", "numa:", "numa:x", "numa:-1", "numa:0 ", "pmem",
                          "pmem:", "memory:0", "pmem+observe:/mnt", "pools"}) {
    const auto specs = parse_targets(bad, {});
    ASSERT_FALSE(specs) << bad;
    EXPECT_THAT(specs.error().message, HasSubstr("is no target; they are memory, numa:NODE"));
    EXPECT_EQ(specs.error().code, ErrorCode::invalid_argument);
  }
}

TEST(StreamThreads, AreNumbersAndRanges) {
  EXPECT_THAT(*parse_threads(""), IsEmpty());
  EXPECT_THAT(*parse_threads("1"), ElementsAre(1));
  for (const char* bad : {"0", "a", "2-1", "1-", "-1", "1...3", "70000", "1 2"}) {
    const auto threads = parse_threads(bad);
    ASSERT_FALSE(threads) << bad;
    EXPECT_THAT(threads.error().message, HasSubstr("names no numbers of threads"));
  }
  if (!has_openmp()) GTEST_SKIP() << "one thread only";
  EXPECT_THAT(*parse_threads("4,1-3,2"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(*parse_threads("2..4"), ElementsAre(2, 3, 4));
}

TEST(StreamOptionsChecked, WrongOnesAreNamed) {
  const auto says = [](const StreamOptions& options, const char* part) {
    const auto checked = check(options);
    ASSERT_FALSE(checked) << part;
    EXPECT_THAT(checked.error().message, HasSubstr(part));
  };
  says({.kernels = {"copy", "x"}}, "'x' is no kernel");
  says({.stores = {"y"}}, "'y' is no way to store; they are plain and nt");
  says({.affinities = {"near"}}, "'near' is no affinity; they are close and spread");
  says({.modes = {"soft"}}, "soft");
  says({.cores = "0-"}, "--cores '0-' is no list of CPUs");
  says({.cores = "65000"}, "CPU 65000, which this process may not use");
  EXPECT_TRUE(check({}));
}

// ---- numbers of elements ------------------------------------------------------------------------

constexpr std::uint64_t cache = 32 << 20, least = caches_an_array * cache / sizeof(double);

Topology one_cache() {
  Topology topology;
  topology.last_level = {{{0, 1}, cache}};
  return topology;
}
std::vector<Series> two_series() {
  std::vector<Series> series(2);
  series[0].name = "roomy";
  series[1].name = "small";
  series[1].target.kind = TargetSpec::Kind::pool;
  for (Series& each : series) each.cpus = {0, 1};
  return series;
}
Result<std::uint64_t> enough(const TargetSpec&) {
  return 1'000'000'000;
}
Result<std::uint64_t> little_in_a_pool(const TargetSpec& spec) {
  return spec.kind == TargetSpec::Kind::pool ? least - 8 : least + 80;
}
Result<std::uint64_t> no_pool(const TargetSpec& spec) {
  if (spec.kind != TargetSpec::Kind::pool) return least + 80;
  return fail(ErrorCode::not_found, "no such pool");
}

TEST(StreamElements, AreThePublishedNumberWhereThereIsRoom) {
  std::vector<Absent> absent;
  const auto sized = choose_elements({}, one_cache(), two_series(), absent, enough);
  ASSERT_TRUE(sized);
  EXPECT_EQ(sized->elements, 100'000'000u);
  EXPECT_EQ(sized->series.size(), 2u);
  EXPECT_THAT(absent, IsEmpty());
}

TEST(StreamElements, AreTheFewestThatAreAskedFor) {
  std::vector<Absent> absent;
  const auto sized = choose_elements({.smallest = true}, one_cache(), two_series(), absent, enough);
  ASSERT_TRUE(sized);
  EXPECT_EQ(sized->elements, least);
}

TEST(StreamElements, FitEverySeriesOrLeaveItOut) {
  std::vector<Absent> absent;
  const auto sized = choose_elements({}, one_cache(), two_series(), absent, little_in_a_pool);
  ASSERT_TRUE(sized);
  EXPECT_EQ(sized->elements, least + 80);
  ASSERT_EQ(absent.size(), 1u);
  EXPECT_EQ(absent[0].what, "small");
  EXPECT_THAT(absent[0].why, HasSubstr("room for"));
  absent.clear();
  ASSERT_TRUE(choose_elements({}, one_cache(), two_series(), absent, no_pool));
  ASSERT_EQ(absent.size(), 1u);
  EXPECT_EQ(absent[0].why, "no such pool");
}

TEST(StreamElements, TooFewForTheCachesAreRefused) {
  std::vector<Absent> absent;
  const auto few =
      choose_elements({.elements = least - 8}, one_cache(), two_series(), absent, enough);
  ASSERT_FALSE(few);
  EXPECT_THAT(few.error().message, HasSubstr("are too few"));
  EXPECT_THAT(few.error().message, HasSubstr("32 MiB"));
  EXPECT_THAT(few.error().message, HasSubstr(std::to_string(least)));
  EXPECT_TRUE(choose_elements({.elements = least}, one_cache(), two_series(), absent, enough));
  EXPECT_TRUE(choose_elements({.elements = 8, .any_size = true}, one_cache(), two_series(), absent,
                              enough));
  const auto odd = choose_elements({.elements = 1001, .any_size = true}, one_cache(), two_series(),
                                   absent, enough);
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().message, HasSubstr("--elements 1008"));
}

// ---- results from the figures -------------------------------------------------------------------

Figure figure(const Series& series, unsigned threads, std::vector<double> copy) {
  Figure made{.series = &series, .threads = threads, .measured = {}};
  for (const double value : copy)
    made.measured.push_back({.timings = {{.kernel = Kernel::copy, .best_MBps = value}},
                             .errors = {},
                             .facts = "facts of it"});
  return made;
}

TEST(StreamResults, MediansRatiosAndTheColumnsOfThePaper) {
  Series local, far;
  local.group = "local";
  local.name = "S0 -> numa:0";
  far.group = "2a";
  far.name = "S0 -> numa:1";
  for (Series* each : {&local, &far}) {
    each->cpus = {0, 1};
    each->target.kind = TargetSpec::Kind::numa;
  }
  const std::vector<Figure> figures = {figure(local, 1, {50}), figure(local, 2, {100, 300, 200}),
                                       figure(far, 1, {10}), figure(far, 2, {90, 110})};
  EXPECT_EQ(figures[1].median(Kernel::copy), 200);
  EXPECT_EQ(figures[3].median(Kernel::copy), 100);
  EXPECT_EQ(figures[3].median(Kernel::add), std::nullopt);
  const Table ratios = ratios_of(figures);
  ASSERT_EQ(ratios.rows.size(), 1u);
  EXPECT_EQ(std::get<double>(ratios.rows[0][0]), 2);
  EXPECT_EQ(std::get<double>(ratios.rows[0][1]), 0.5);
  EXPECT_EQ(std::get<std::string>(ratios.rows[0][5]), "remote / local");
  far.far = true;
  EXPECT_EQ(std::get<std::string>(ratios_of(figures).rows[0][5]), "CXL / local");
  EXPECT_EQ(csv_of({figures[1]}, {.elements = 8}),
            "threads,Copy,Scale,Add,Triad,class,affinity,elements,series\n"
            "2,200.0,,,,local,close,8,\"S0 -> numa:0\"\n");
  const std::string json = all_of(figures, {{"what", "why"}}, {}).json();
  for (const char* part :
       {"\"series\": \"S0 -> numa:1\"", "facts of it", "\"what\": \"what\"", "\"MBps\": 300"})
    EXPECT_THAT(json, HasSubstr(part));
}

}  // namespace
}  // namespace penstock::bench::stream
