// The switch's results for a chunk, and the chunks that it refuses, on a real pool.
#include "accelerator/combining.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "arena/test_pool.hpp"
#include "schedule/datatype.hpp"

namespace penstock::accelerator {
namespace {

using offload::Command;
using offload::Operation;
using offload::Status;

constexpr std::uint32_t ranks = 3;
constexpr std::uint64_t slot_bytes = 1024;

class CombiningTest : public testing::Test {
 protected:
  /// Rank r's operand: floats r + 1, r + 2, ...
  std::vector<Command> commands(Operation operation, std::uint64_t elements,
                                std::uint64_t segments = 1) {
    std::vector<Command> made;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      made.push_back({.operation = operation,
                      .reduction = static_cast<std::uint8_t>(coll::Operation::sum),
                      .datatype = static_cast<std::uint8_t>(coll::Datatype::float32),
                      .rank = static_cast<std::uint16_t>(rank),
                      .ranks = ranks,
                      .source = slots_.offset + rank * slot_bytes,
                      .elements = elements});
      const std::uint64_t stride = stride_of(made.back());
      for (std::uint64_t segment = 0; segment < segments; ++segment) {
        std::vector<float> values(elements);
        for (std::uint64_t i = 0; i < elements; ++i)
          values[i] = static_cast<float>(rank + 1 + i + 100 * segment);
        at_.pool->memory().publish_bulk(at_.pool->base() + made.back().source + segment * stride,
                                        values.data(), elements * sizeof(float));
      }
    }
    at_.pool->memory().full_fence();
    return made;
  }
  Chunk chunk_of(const std::vector<Command>& commands) const {
    return {&commands, slots_.offset + ranks * slot_bytes, slot_bytes};
  }
  float result(std::uint64_t at) const {
    float value;
    at_.pool->memory().full_fence();
    std::memcpy(&value, at_.pool->base() + slots_.offset + ranks * slot_bytes + at, sizeof value);
    return value;
  }

  arena::TestPool pool_{32 << 20};
  arena::Attached at_ = pool_.attach();
  arena::Object slots_ = *at_->create("slots", 8 * slot_bytes);
  Combining combining_{*at_.pool};
};

TEST_F(CombiningTest, ReducesInRankOrder) {
  const auto all = commands(Operation::all_reduce, 100);
  ASSERT_EQ(combining_.check(chunk_of(all)).status, Status::ok);
  EXPECT_EQ(combining_.compute(chunk_of(all)).bytes, 0);
  EXPECT_EQ(result(0), 6.0f);
  EXPECT_EQ(result(99 * 4), 6.0f + 3 * 99);
  EXPECT_EQ(combining_.traffic().gathered_bytes, 3 * 400u);
  EXPECT_EQ(combining_.traffic().result_bytes, 400u);
}

TEST_F(CombiningTest, GivesEachRankItsSegment) {
  const auto all = commands(Operation::reduce_scatter, 20, ranks);
  ASSERT_EQ(combining_.check(chunk_of(all)).status, Status::ok);
  combining_.compute(chunk_of(all));
  for (std::uint64_t segment = 0; segment < ranks; ++segment)
    EXPECT_EQ(result(segment * 128), 6.0f + 300.0f * static_cast<float>(segment));
}

TEST_F(CombiningTest, GathersAndBroadcasts) {
  const auto gathered = commands(Operation::all_gather, 20);
  combining_.compute(chunk_of(gathered));
  for (std::uint64_t rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(result(rank * 128), static_cast<float>(rank + 1));
  auto broadcast = commands(Operation::broadcast, 20);
  for (Command& command : broadcast) command.root = 2;
  broadcast[0].elements = broadcast[0].source = 0;  // only the root has an operand
  ASSERT_EQ(combining_.check(chunk_of(broadcast)).status, Status::ok);
  combining_.compute(chunk_of(broadcast));
  EXPECT_EQ(result(0), 3.0f);
}

TEST_F(CombiningTest, ReducesWhatPacketsCarryThemselves) {
  auto all = commands(Operation::all_reduce, 1);
  const float values[] = {1.5f, 2.5f, -10.0f};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    all[rank].source = all[rank].elements = 0;
    all[rank].operand.bytes = 8;
    std::memcpy(all[rank].operand.data.data(), &values[rank], 4);
  }
  ASSERT_EQ(combining_.check(chunk_of(all)).status, Status::ok);
  const auto inlined = combining_.compute(chunk_of(all));
  float sum;
  std::memcpy(&sum, inlined.data.data(), 4);
  EXPECT_EQ(inlined.bytes, 8);
  EXPECT_EQ(sum, -6.0f);
  all[1].operand.bytes = 7;  // not whole elements
  EXPECT_EQ(combining_.check(chunk_of(all)).culprit, 1u);
}

/// Only for reductions is their kind checked.
TEST_F(CombiningTest, OnlyWhatHasOneSegmentComesInPackets) {
  for (const Operation operation : {Operation::all_gather, Operation::reduce_scatter}) {
    auto all = commands(operation, 1);
    for (Command& command : all) {
      command.source = command.elements = 0;
      command.operand.bytes = 8;
      if (operation == Operation::all_gather) command.reduction = 200;
    }
    EXPECT_EQ(combining_.check(chunk_of(all)).status, Status::malformed);
  }
}

/// The switch reads nothing of it.
TEST_F(CombiningTest, WhatCannotBeIsRefusedWithItsRank) {
  const auto refusal = [&](const auto& change, Operation operation = Operation::all_reduce) {
    auto all = commands(operation, 100);
    change(all);
    return combining_.check(chunk_of(all));
  };
  for (const std::uint64_t source :
       {at_.pool->bytes(), at_.pool->bytes() - 64, ~std::uint64_t{63}, std::uint64_t{8}}) {
    const auto refused = refusal([&](auto& all) { all[2].source = source; });
    EXPECT_EQ(refused.status, Status::malformed) << source;
    EXPECT_EQ(refused.culprit, 2u);
  }
  for (const std::uint64_t elements : {std::uint64_t{0}, std::uint64_t{257}, ~std::uint64_t{0},
                                       ~std::uint64_t{0} / 4, std::uint64_t{1} << 62}) {
    const auto refused = refusal([&](auto& all) { all[1].elements = elements; });
    EXPECT_EQ(refused.status, Status::malformed) << elements;
    EXPECT_EQ(refused.culprit, 1u);
  }
  // One operand fits a slot, but not one for each rank.
  EXPECT_EQ(refusal([](auto&) {}, Operation::all_gather).status, Status::malformed);
  EXPECT_EQ(refusal([](auto&) {}, Operation::reduce_scatter).status, Status::malformed);
  const auto unknown = [&](std::uint8_t type, std::uint8_t operation) {
    return refusal([&](auto& all) {
             for (Command& command : all) {
               command.datatype = type;
               command.reduction = operation;
             }
           })
        .status;
  };
  EXPECT_EQ(unknown(coll::datatype_count, 0), Status::unsupported);
  EXPECT_EQ(unknown(0, coll::operation_count), Status::unsupported);
  EXPECT_EQ(unknown(static_cast<std::uint8_t>(coll::Datatype::float32),
                    static_cast<std::uint8_t>(coll::Operation::bit_and)),
            Status::unsupported);
  EXPECT_EQ(unknown(static_cast<std::uint8_t>(coll::Datatype::float32),
                    static_cast<std::uint8_t>(coll::Operation::premultiplied_sum)),
            Status::unsupported);
}

}  // namespace
}  // namespace penstock::accelerator
