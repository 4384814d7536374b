// The kernels of combine.cu, compiled for the host with CUDA's words given a meaning there: any
// number of threads gives the results of hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/format.hpp"
#include "base/seed_in_tests.hpp"
#include "schedule/reduction.hpp"

#define __device__
#define __global__
#define __grid_constant__

namespace penstock::gpu {

struct uint4 {
  unsigned x, y, z, w;
};
struct Index {
  unsigned x;
};
static Index blockIdx{0}, threadIdx{0}, blockDim{1}, gridDim{1};

static uint4 __ldcv(const uint4* at) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % sizeof *at, 0u);
  return *at;
}

}  // namespace penstock::gpu

#include "gpu/combine.cu"

namespace penstock::gpu {
namespace {

constexpr std::size_t alignment = 64;

/// Bytes at an address that is `shift` behind an aligned one, with a mark on both sides.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t shift) : bytes_(bytes), all_(bytes + 3 * alignment, mark) {
    const auto at = reinterpret_cast<std::uintptr_t>(all_.data());
    begin_ = all_.data() + (alignment - at % alignment) % alignment + alignment + shift % alignment;
  }
  std::byte* data() { return begin_; }
  bool is_whole_around() const {
    return std::all_of(all_.data(), static_cast<const std::byte*>(begin_), is_mark) &&
           std::all_of(static_cast<const std::byte*>(begin_ + bytes_), all_.data() + all_.size(),
                       is_mark);
  }

 private:
  static constexpr std::byte mark{0xA7};
  static bool is_mark(std::byte byte) { return byte == mark; }

  std::size_t bytes_;
  std::vector<std::byte> all_;
  std::byte* begin_;
};

struct Case {
  coll::Operation operation;
  std::size_t elements, shift;
  std::uint32_t operands;
  bool in_place;
};

/// The result of hosts.
std::vector<std::byte> wanted(const Combine& call, coll::Datatype type, coll::Operation operation) {
  const auto reduction = coll::Reduction::make(type, operation, call.ranks);
  EXPECT_TRUE(reduction);
  alignas(64) std::byte accumulator[coll::Reduction::accumulator_bytes];
  const std::size_t element = coll::bytes_of(type);
  std::vector<std::byte> result(call.elements * element);
  for (std::size_t i = 0, n = 0; i < call.elements; i += n) {
    n = std::min(call.elements - i, coll::Reduction::max_elements);
    const auto values = [&](std::uint32_t k) {
      return static_cast<const std::byte*>(call.operand[k]) + i * element;
    };
    reduction->first(accumulator, values(0), n, call.factor);
    for (std::uint32_t k = 1; k < call.operands; ++k)
      reduction->add(accumulator, values(k), n, call.factor);
    reduction->finish(result.data() + i * element, accumulator, n);
  }
  return result;
}

void reduce(const Case& given, coll::Datatype type, void (*kernel)(const Combine),
            std::mt19937_64& random) {
  const std::size_t bytes = given.elements * coll::bytes_of(type);
  std::vector<Buffer> operands;
  for (std::uint32_t k = 0; k < given.operands; ++k) {
    operands.emplace_back(bytes, given.shift);
    for (std::size_t i = 0; i < bytes; ++i)
      operands[k].data()[i] = static_cast<std::byte>(random() % 256);
  }
  Buffer apart(bytes, given.shift);
  Buffer& result = given.in_place ? operands.back() : apart;
  Combine call;
  call.result = result.data();
  call.elements = given.elements;
  call.factor = 3;
  call.operands = given.operands;
  call.ranks = given.operands;
  call.operation =
      type == coll::Datatype::boolean ? coll::of_booleans(given.operation) : given.operation;
  for (std::uint32_t k = 0; k < given.operands; ++k) call.operand[k] = operands[k].data();
  const auto expected = wanted(call, type, given.operation);
  blockDim.x = static_cast<unsigned>(1 + random() % 7);
  gridDim.x = static_cast<unsigned>(1 + random() % 3);
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) kernel(call);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), result.data()));
  EXPECT_TRUE(result.is_whole_around());
}

void reduce_all(coll::Datatype type, void (*kernel)(const Combine)) {
  std::mt19937_64 random(base::seed_in_tests());
  constexpr std::size_t sizes[] = {0, 1, 7, 16, 33, 64, 200, 1025};
  for (std::uint32_t o = 0; o < coll::operation_count; ++o) {
    const auto operation = static_cast<coll::Operation>(o);
    if (!supports(operation, type)) continue;
    for (const std::size_t elements : sizes)
      for (const std::uint32_t operands : {1u, 2u, 3u, 5u}) {
        const Case given{operation, elements, random() % 2 * coll::bytes_of(type), operands,
                         random() % 2 == 0};
        SCOPED_TRACE(fmt::format("{} {} of {} values at {}", name_of(type), name_of(operation),
                                 elements, given.shift));
        reduce(given, type, kernel, random);
      }
  }
}

TEST(Combine, IsTheSameByAnyNumberOfThreads) {
#define PENSTOCK_COMMA ,
#define PENSTOCK_COMBINE(type, ...) reduce_all(coll::Datatype::type, penstock_combine_##type);
#include "gpu/combine_table.inc"
#undef PENSTOCK_COMBINE
#undef PENSTOCK_COMMA
}

}  // namespace
}  // namespace penstock::gpu
