// Calls of GPUs for tests, which compare their results with those of hosts.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/seed_in_tests.hpp"
#include "gpu/test_ranks.hpp"
#include "schedule/test_calls.hpp"

namespace penstock::gpu {

using coll::Collective;

/// Calls that only move data, drawn alike on all ranks; several are in flight at once.
inline void move_in_turn(const Rank& rank, std::uint64_t seed, int calls) {
  struct Pending {
    coll::TestCall call;
    std::vector<coll::Made> made;
    std::unique_ptr<DeviceBytes> in, out;
  };
  std::mt19937_64 random(seed);
  std::vector<Pending> pending;
  for (int i = 0; i < calls; ++i) {
    Pending p;
    p.call = coll::draw_call(coll::draw_movement(random), rank.core.ranks(), random);
    p.call.salt = static_cast<std::uint32_t>(random());
    for (std::uint32_t r = 0; r < rank.core.ranks(); ++r) p.made.push_back(make(p.call, r));
    const coll::Made& own = p.made[rank.core.self()];
    p.in = std::make_unique<DeviceBytes>(rank.device, own.input, rank.stream);
    p.out = std::make_unique<DeviceBytes>(rank.device, own.output, rank.stream);
    const bool in_place = own.problem.in_place;
    const auto done = rank.gpu.enqueue({.name = name_of(p.call.collective),
                                        .problem = own.problem,
                                        .input = p.in->at(),
                                        .output = in_place ? p.in->at() : p.out->at()},
                                       rank.stream);
    ASSERT_TRUE(done) << done.error().message;
    pending.push_back(std::move(p));
  }
  for (const Pending& p : pending) {
    const bool in_place = p.made[rank.core.self()].problem.in_place;
    EXPECT_EQ(check_result(p.call, p.made, rank.core.self(), (in_place ? p.in : p.out)->read()), "")
        << name_of(p.call.collective);
  }
  const auto drained = rank.gpu.drain();
  EXPECT_TRUE(drained) << drained.error().message;
}

/// Values whose sums, products and averages stay finite, and which differ by rank and place.
inline std::vector<std::byte> values_of(coll::Datatype type, std::size_t elements,
                                        std::uint32_t rank, std::uint64_t salt) {
  std::mt19937_64 random(salt * 101 + rank);
  std::vector<std::byte> bytes(elements * bytes_of(type));
  const auto put = [&](auto value, std::size_t i) {
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  };
  for (std::size_t i = 0; i < elements; ++i) {
    const double drawn = static_cast<double>(random() % 64) / 16 - 1.5;
    switch (type) {
      case coll::Datatype::float16:
        put(coll::Float16::encode(static_cast<float>(drawn)), i);
        break;
      case coll::Datatype::bfloat16:
        put(coll::BFloat16::encode(static_cast<float>(drawn)), i);
        break;
      case coll::Datatype::float8_e4m3:
        put(coll::Float8E4M3::encode(static_cast<float>(drawn)), i);
        break;
      case coll::Datatype::float8_e5m2:
        put(coll::Float8E5M2::encode(static_cast<float>(drawn)), i);
        break;
      case coll::Datatype::float32:
        put(static_cast<float>(drawn) * 1.1F, i);
        break;
      case coll::Datatype::float64:
        put(drawn * 1.1, i);
        break;
      case coll::Datatype::boolean:
        put(static_cast<std::uint8_t>(random() % 2), i);
        break;
      default: {
        const std::uint64_t word = random();
        std::memcpy(bytes.data() + i * bytes_of(type), &word, bytes_of(type));
      }
    }
  }
  return bytes;
}

inline coll::Problem reduction_problem(Collective collective, const Rank& rank, coll::Datatype type,
                                       std::uint64_t elements) {
  const std::uint32_t ranks = rank.core.ranks();
  const std::uint64_t each = elements * bytes_of(type);
  coll::Problem p{.collective = collective,
                  .ranks = ranks,
                  .rank = rank.core.self(),
                  .element_bytes = bytes_of(type),
                  .max_block_bytes = each};
  if (collective == Collective::reduce_scatter)
    for (std::uint32_t r = 0; r < ranks; ++r) p.input.push_back({r * each, each});
  else
    p.input = {{0, each}};
  if (collective != Collective::reduce || p.rank == p.root) p.output = {{0, each}};
  return p;
}

/// Where the buffers of a reduction lie in the GPU's memory.
struct Placing {
  bool in_place = false;
  std::uint64_t in_at = 0, out_at = 0;  ///< bytes behind an aligned address
};

/// A GPU's result equals that of the hosts, bit by bit.
inline void reduce_both_ways(const Rank& rank, const coll::Problem& problem, coll::Datatype type,
                             coll::Operation operation, const Placing& placing = {}) {
  const auto end_of = [](const std::vector<coll::Block>& blocks) {
    return blocks.empty() ? 0 : blocks.back().offset + blocks.back().bytes;
  };
  SCOPED_TRACE(fmt::format("{} {} of {} {}", name_of(problem.collective), name_of(operation),
                           *problem.max_block_bytes / bytes_of(type), name_of(type)));
  const std::uint64_t elements = end_of(problem.input) / bytes_of(type);
  const auto in = values_of(type, elements, rank.core.self(), *problem.max_block_bytes);
  std::vector<std::byte> wanted(end_of(problem.output));
  const auto reduction = *coll::Reduction::make(type, operation, rank.core.ranks());
  const coll::PredefinedArithmetic plain(reduction);
  const auto scaled = coll::PremultipliedArithmetic::make(reduction, 3);
  const bool premultiplied = operation == coll::Operation::premultiplied_sum;
  const coll::Arithmetic& arithmetic =
      premultiplied ? static_cast<const coll::Arithmetic&>(*scaled) : plain;
  const auto by_host = rank.core.run({.name = "by hosts",
                                      .problem = &problem,
                                      .plan = rank.core.plan(problem),
                                      .input = in.data(),
                                      .output = wanted.data(),
                                      .arithmetic = &arithmetic});
  ASSERT_TRUE(by_host) << by_host.error().message;
  std::vector<std::byte> shifted(placing.in_at);
  shifted.insert(shifted.end(), in.begin(), in.end());
  const DeviceBytes there(rank.device, shifted, rank.stream);
  const DeviceBytes result(rank.device, std::vector<std::byte>(placing.out_at + wanted.size()),
                           rank.stream);
  coll::Problem by_gpus = problem;
  by_gpus.in_place = placing.in_place;
  const auto done = rank.gpu.enqueue(
      {.name = "by GPUs",
       .problem = by_gpus,
       .input = there.at() + placing.in_at,
       .output = placing.in_place ? there.at() + placing.in_at : result.at() + placing.out_at,
       .reducing = Reducing{.type = type, .operation = operation, .factor = 3}},
      rank.stream);
  ASSERT_TRUE(done) << done.error().message;
  auto found = placing.in_place ? there.read() : result.read();
  found.erase(found.begin(),
              found.begin() +
                  static_cast<std::ptrdiff_t>(placing.in_place ? placing.in_at : placing.out_at));
  found.resize(wanted.size());
  EXPECT_EQ(found, wanted);
  ASSERT_TRUE(rank.gpu.drain());
}
inline void reduce_both_ways(const Rank& rank, Collective collective, coll::Datatype type,
                             coll::Operation operation, std::uint64_t elements) {
  reduce_both_ways(rank, reduction_problem(collective, rank, type, elements), type, operation);
}

/// Each type with each operation.
inline void reduce_all_both_ways(const Rank& rank) {
  std::mt19937_64 random(base::seed_in_tests());
  constexpr Collective kinds[] = {Collective::reduce, Collective::reduce_scatter,
                                  Collective::allreduce, Collective::scan};
  constexpr std::uint64_t sizes[] = {1, 5, 33, 700};
  for (std::uint32_t t = 0; t < coll::datatype_count; ++t) {
    for (std::uint32_t o = 0; o < coll::operation_count; ++o) {
      const auto type = static_cast<coll::Datatype>(t);
      const auto operation = static_cast<coll::Operation>(o);
      if (!supports(operation, type)) continue;
      reduce_both_ways(rank, kinds[random() % std::size(kinds)], type, operation,
                       sizes[random() % std::size(sizes)]);
    }
  }
}

/// A sum over all ranks, in a graph and outside, of numbers that differ from turn to turn.
class Sums {
 public:
  Sums(const Rank& rank, std::uint32_t elements)
      : rank_(rank),
        elements_(elements),
        problem_(reduction_problem(Collective::allreduce, rank, coll::Datatype::int32, elements)),
        in_(rank.device, std::vector<std::byte>(elements * 4), rank.stream),
        out_(rank.device, std::vector<std::byte>(elements * 4), rank.stream) {}

  Result<void> enqueue(std::uint64_t timeout_ns = 0) const {
    return enqueue_on(rank_.stream, timeout_ns);
  }
  Result<void> enqueue_on(cuda::Stream stream, std::uint64_t timeout_ns = 0) const {
    return rank_.gpu.enqueue({.name = "sum",
                              .problem = problem_,
                              .input = in_.at(),
                              .output = out_.at(),
                              .reducing = Reducing{.type = coll::Datatype::int32},
                              .timeout_ns = timeout_ns},
                             stream);
  }
  void put(std::uint32_t turn) {
    const Device::Scope scope(rank_.device);
    numbers_.assign(elements_, turn * 1000 + rank_.core.self());
    ASSERT_EQ(rank_.device.driver().copy_to_device(in_.at(), numbers_.data(), elements_ * 4,
                                                   rank_.stream),
              cuda::success);
  }
  void expect(std::uint32_t turn) const {
    const std::uint32_t ranks = rank_.core.ranks();
    std::vector<std::uint32_t> found(elements_);
    const auto bytes = out_.read();
    std::memcpy(found.data(), bytes.data(), bytes.size());
    EXPECT_THAT(found, testing::Each(ranks * turn * 1000 + ranks * (ranks - 1) / 2));
  }
  void wait() const { (void)out_.read(); }
  /// Captures the graph that launch() launches.
  void capture(int mode, int calls) {
    const Device::Scope scope(rank_.device);
    const cuda::Driver& driver = rank_.device.driver();
    cuda::Graph graph = nullptr;
    ASSERT_EQ(driver.stream_begin_capture(rank_.stream, mode), cuda::success);
    for (int i = 0; i < calls; ++i) {
      const auto done = enqueue();
      ASSERT_TRUE(done) << done.error().message;
    }
    ASSERT_EQ(driver.stream_end_capture(rank_.stream, &graph), cuda::success);
    ASSERT_EQ(driver.graph_instantiate(&graph_, graph, 0), cuda::success);
    ASSERT_EQ(driver.graph_destroy(graph), cuda::success);
  }
  void launch() const {
    const Device::Scope scope(rank_.device);
    ASSERT_EQ(rank_.device.driver().graph_launch(graph_, rank_.stream), cuda::success);
  }

 private:
  const Rank& rank_;
  std::uint32_t elements_;
  coll::Problem problem_;
  DeviceBytes in_, out_;
  std::vector<std::uint32_t> numbers_;
  cuda::GraphExec graph_ = nullptr;
};

}  // namespace penstock::gpu
