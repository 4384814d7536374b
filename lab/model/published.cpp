#include "model/published.hpp"

#include "base/format.hpp"
#include "schedule/builder.hpp"

namespace penstock::model {

namespace {

using coll::Buffer;
using coll::Collective;
using coll::Span;

/// One call of all ranks.
struct Published {
  Collective collective;
  std::uint32_t ranks;
  std::uint64_t bytes;
  std::uint32_t chunks;
  ReadOrder order;

  bool spreads() const { return collective == Collective::alltoall; }
  std::uint64_t segment() const { return spreads() ? bytes / ranks : bytes; }
  /// Chunk i of a segment, relative to the segment's begin.
  coll::Block part(std::uint64_t i) const {
    const std::uint64_t begin = segment() * i / chunks / 4 * 4;
    const std::uint64_t end = i + 1 == chunks ? segment() : segment() * (i + 1) / chunks / 4 * 4;
    return {begin, end - begin};
  }
  std::uint32_t kth(std::uint32_t rank, std::uint32_t k) const {
    return order == ReadOrder::after ? (rank + 1 + k) % ranks : (rank + ranks - 1 - k) % ranks;
  }
};

void write_all(const Published& call, coll::Builder& builder) {
  for (std::uint32_t k = 0; k + 1 < (call.spreads() ? call.ranks : 2); ++k) {
    std::vector<std::uint32_t> readers;
    for (std::uint32_t i = 0; i + 1 < call.ranks; ++i) readers.push_back(builder.next(i));
    if (call.spreads()) readers = {builder.next(k)};
    const std::uint64_t from = call.spreads() ? builder.next(k) * call.segment() : 0;
    for (std::uint32_t i = 0; i < call.chunks; ++i) {
      const coll::Block part = call.part(i);
      builder.publish(k * call.chunks + i, {{{Buffer::input, from + part.offset, part.bytes}, 0}},
                      readers);
    }
  }
}

/// Fetched operands stay separate until all are there; then they are reduced in rank order.
void read_and_reduce(const Published& call, std::uint32_t rank, coll::Builder& builder) {
  builder.set_scratch(call.bytes * call.ranks);
  for (std::uint32_t k = 0; k + 1 < call.ranks; ++k) {
    const std::uint32_t producer = call.kth(rank, k);
    for (std::uint32_t i = 0; i < call.chunks; ++i) {
      const coll::Block part = call.part(i);
      builder.wait(producer, i);
      builder.copy(producer, i, 0,
                   {Buffer::scratch, producer * call.bytes + part.offset, part.bytes});
    }
  }
  std::vector<coll::Operand> operands;
  for (std::uint32_t producer = 0; producer < call.ranks; ++producer) {
    const Span own{Buffer::input, 0, call.bytes};
    const Span fetched{Buffer::scratch, producer * call.bytes, call.bytes};
    operands.push_back({.own = true, .span = producer == rank ? own : fetched, .rank = producer});
  }
  builder.combine(operands, {Buffer::output, 0, call.bytes});
}

void read_segments(const Published& call, std::uint32_t rank, coll::Builder& builder) {
  const std::uint64_t own = rank * call.segment();
  builder.move({Buffer::input, own, call.segment()}, {Buffer::output, own, call.segment()});
  for (std::uint32_t k = 0; k + 1 < call.ranks; ++k) {
    const std::uint32_t producer = call.kth(rank, k);
    const std::uint64_t place = (rank + call.ranks - producer - 1) % call.ranks;
    for (std::uint32_t i = 0; i < call.chunks; ++i) {
      const coll::Block part = call.part(i);
      builder.wait(producer, place * call.chunks + i);
      builder.copy(producer, place * call.chunks + i, 0,
                   {Buffer::output, producer * call.segment() + part.offset, part.bytes});
    }
  }
}

void read_from_root(const Published& call, std::uint32_t rank, coll::Builder& builder) {
  for (std::uint32_t k = 0; k < call.chunks; ++k) {
    const std::uint32_t i = (rank - 1 + k) % call.chunks;
    const coll::Block part = call.part(i);
    builder.wait(0, i);
    builder.copy(0, i, 0, {Buffer::output, part.offset, part.bytes});
  }
}

coll::Schedule schedule_of(const Published& call, std::uint32_t rank) {
  const coll::Problem problem{
      .collective = call.collective, .ranks = call.ranks, .rank = rank, .element_bytes = 4};
  const coll::Plan plan{.slot_bytes = call.bytes, .slots = call.chunks * call.ranks};
  coll::Builder builder(problem, plan);
  if (call.collective != Collective::broadcast || rank == 0) write_all(call, builder);
  if (call.collective == Collective::allreduce) read_and_reduce(call, rank, builder);
  if (call.collective == Collective::alltoall) read_segments(call, rank, builder);
  if (call.collective == Collective::broadcast && rank != 0) read_from_root(call, rank, builder);
  return builder.finish();
}

}  // namespace

Result<std::vector<coll::Schedule>> published(Collective collective, std::uint32_t ranks,
                                              std::uint64_t bytes, std::uint32_t chunks,
                                              ReadOrder order) {
  if (collective != Collective::allreduce && collective != Collective::alltoall &&
      collective != Collective::broadcast)
    return fail(ErrorCode::invalid_argument,
                "no published growth is known of {}: allreduce, alltoall and broadcast are in "
                "CCCL's Figure 10",
                name_of(collective));
  if (ranks < 2 || chunks == 0 || bytes / ranks / 4 < chunks)
    return fail(ErrorCode::invalid_argument,
                "{} chunks of {} bytes for {} ranks: 2 ranks and an element of 4 bytes for each "
                "chunk are needed",
                chunks, bytes, ranks);
  std::vector<coll::Schedule> schedules;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    schedules.push_back(schedule_of({collective, ranks, bytes, chunks, order}, rank));
  return schedules;
}

}  // namespace penstock::model
