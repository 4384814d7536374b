// Compares the kernels and their recurrence with a second, array-by-array version of STREAM.
#include "bench/stream/kernels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "bench/stream/recurrence.hpp"

namespace penstock::bench::stream {
namespace {

using testing::HasSubstr;

/// STREAM as published: initial values, the doubling, then the four kernels in turn.
struct Published {
  std::vector<double> a, b, c;
  explicit Published(std::size_t n) : a(n, 1.0), b(n, 2.0), c(n, 0.0) {
    for (double& each : a) each = 2.0 * each;
  }
  void turn() {
    const double s = 3.0;
    for (std::size_t j = 0; j < a.size(); ++j) c[j] = a[j];
    for (std::size_t j = 0; j < a.size(); ++j) b[j] = s * c[j];
    for (std::size_t j = 0; j < a.size(); ++j) c[j] = a[j] + b[j];
    for (std::size_t j = 0; j < a.size(); ++j) a[j] = b[j] + s * c[j];
  }
};

/// Arrays in which all elements differ, so that a wrong index shows.
struct Different {
  alignas(64) double a[3 * block_elements], b[3 * block_elements], c[3 * block_elements];
  std::uint64_t elements;
  explicit Different(std::uint64_t count) : elements(count) {
    for (std::uint64_t j = 0; j < 3 * block_elements; ++j) {
      a[j] = 1.0 + static_cast<double>(j);
      b[j] = 0.5 * static_cast<double>(j);
      c[j] = 7.0 - static_cast<double>(j);
    }
  }
  Arrays arrays() { return {a, b, c, elements}; }
};

double expected(Kernel kernel, const Different& before, std::uint64_t j) {
  switch (kernel) {
    case Kernel::copy:
      return before.a[j];
    case Kernel::scale:
      return 3.0 * before.c[j];
    case Kernel::add:
      return before.a[j] + before.b[j];
    case Kernel::triad:
      return before.b[j] + 3.0 * before.c[j];
  }
  return NAN;
}

double* written(Kernel kernel, Different& at) {
  return kernel == Kernel::scale ? at.b : kernel == Kernel::triad ? at.a : at.c;
}

TEST(StreamKernels, WriteExactlyTheirShares) {
  for (const std::uint64_t elements :
       {std::uint64_t{8}, std::uint64_t{64}, block_elements, 2 * block_elements + 16})
    for (const unsigned threads : {1u, 2u, 3u, 7u})
      for (const Kernel kernel : all_kernels)
        for (const bool in_blocks : {false, true}) {
          const Different before(elements);
          Different after(elements);
          for (unsigned i = 0; i < threads; ++i) {
            const Share share = share_of(kernel, after.arrays(), i, threads);
            if (in_blocks)
              run_in_blocks(share, [](double* to, const double* from, std::size_t bytes) {
                std::memcpy(to, from, bytes);
              });
            else
              run_plain(share);
          }
          Different wanted = before;
          for (std::uint64_t j = 0; j < elements; ++j)
            written(kernel, wanted)[j] = expected(kernel, before, j);
          EXPECT_EQ(std::memcmp(wanted.a, after.a, 3 * sizeof wanted.a), 0)
              << kernel_name(kernel) << ", " << elements << " elements, " << threads << " threads";
        }
}

TEST(StreamKernels, PartsAreWholeLinesAndCoverAll) {
  for (const std::uint64_t elements : {8, 16, 24, 1000, 100'000'000})
    for (const unsigned threads : {1u, 2u, 3u, 10u, 48u}) {
      std::uint64_t next = 0;
      for (unsigned i = 0; i < threads; ++i) {
        const Part part = part_of(elements, i, threads);
        EXPECT_EQ(part.first, next);
        EXPECT_EQ(part.first % line_elements, elements == next ? elements % line_elements : 0);
        next = part.first + part.count;
      }
      EXPECT_EQ(next, elements);
    }
}

TEST(StreamKernels, CountAsPublished) {
  EXPECT_EQ(counted_bytes(Kernel::copy, published_scalar * 100), 4800u);
  for (const Kernel kernel : {Kernel::copy, Kernel::scale})
    EXPECT_EQ(counted_bytes(kernel, 100'000'000), 1'600'000'000u);
  for (const Kernel kernel : {Kernel::add, Kernel::triad})
    EXPECT_EQ(counted_bytes(kernel, 100'000'000), 2'400'000'000u);
}

TEST(StreamKernels, AreKnownByName) {
  for (const Kernel kernel : all_kernels) EXPECT_EQ(*parse_kernel(kernel_name(kernel)), kernel);
  EXPECT_EQ(*parse_kernel("triad"), Kernel::triad);
  const auto wrong = parse_kernel("triadd");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("'triadd' is no kernel of STREAM; they are copy"));
}

TEST(StreamRecurrence, IsWhatTheArraysHold) {
  const std::vector<Kernel> kernels(all_kernels.begin(), all_kernels.end());
  Published published(16);
  for (unsigned times = 0; times <= 20; ++times) {
    const Values values = replay(kernels, times);
    for (std::size_t j = 0; j < 16; ++j) {
      EXPECT_EQ(published.a[j], values.a) << times;
      EXPECT_EQ(published.b[j], values.b) << times;
      EXPECT_EQ(published.c[j], values.c) << times;
    }
    published.turn();
  }
}

TEST(StreamRecurrence, StaysInTheRangeOfADouble) {
  const Values values = replay({all_kernels.begin(), all_kernels.end()}, max_runs);
  EXPECT_TRUE(std::isfinite(values.a) && std::isfinite(values.b) && std::isfinite(values.c));
}

TEST(StreamErrors, AreRelativeMeans) {
  ErrorSum sum(4.0);
  const double right[] = {4.0, 4.0}, wrong[] = {4.0, 3.0};
  sum.add(right, 2);
  EXPECT_EQ(sum.mean(), 0.0);
  sum.add(wrong, 2);
  EXPECT_DOUBLE_EQ(sum.mean(), 1.0 / 4 / 4);
  ErrorSum of_zero(0.0);
  of_zero.add(wrong, 2);
  EXPECT_DOUBLE_EQ(of_zero.mean(), 3.5);
}

TEST(StreamErrors, ANumberThatIsNoneIsNotSmall) {
  EXPECT_TRUE((Errors{0, 9e-14, 0}.small()));
  EXPECT_FALSE((Errors{0, 0, 2e-13}.small()));
  EXPECT_FALSE((Errors{NAN, 0, 0}.small()));
  EXPECT_FALSE((Errors{0, 0, ErrorSum(1).mean()}.small())) << "nothing was compared";
}

}  // namespace
}  // namespace penstock::bench::stream
