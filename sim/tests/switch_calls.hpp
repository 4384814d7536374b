// Collective calls that a switch can do, with the input of each rank and its required output: the
// bits that the arithmetic of src/schedule gives in rank order.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "schedule/arithmetic.hpp"
#include "schedule/datatype.hpp"
#include "schedule/problem.hpp"

namespace penstock::sim {

struct SwitchCall {
  coll::Collective collective = coll::Collective::barrier;
  std::uint32_t ranks = 2, root = 0;
  bool in_place = false;
  std::uint64_t elements = 0;  ///< in a block
  coll::Datatype type = coll::Datatype::float32;
  coll::Operation operation = coll::Operation::sum;
  std::uint64_t salt = 0;

  bool reduces() const { return coll::is_reduction(collective); }
  std::uint64_t block_bytes() const { return elements * coll::bytes_of(type); }
  bool has_many_inputs() const { return collective == coll::Collective::reduce_scatter; }
  bool has_many_outputs() const { return collective == coll::Collective::allgather; }
  bool has_input(std::uint32_t rank) const {
    if (collective == coll::Collective::barrier) return false;
    return collective != coll::Collective::broadcast || rank == root;
  }
  bool has_output(std::uint32_t rank) const {
    if (collective == coll::Collective::barrier) return false;
    if (collective == coll::Collective::broadcast) return rank != root;
    return collective != coll::Collective::reduce || rank == root;
  }
  bool in_place_at(std::uint32_t rank) const {
    if (!in_place || collective == coll::Collective::barrier ||
        collective == coll::Collective::broadcast)
      return false;
    return collective != coll::Collective::reduce || rank == root;
  }
  coll::Reduction reduction() const { return *coll::Reduction::make(type, operation, ranks); }

  /// The input of `rank`, one block after the other.
  std::vector<std::byte> brought(std::uint32_t rank) const {
    std::mt19937_64 random(salt * 1000003 + rank);
    std::vector<std::byte> bytes(block_bytes() * (has_many_inputs() ? ranks : 1));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  }
  /// The required output of `rank`, one block after the other.
  std::vector<std::byte> expected(std::uint32_t rank) const {
    if (!has_output(rank)) return {};
    if (collective == coll::Collective::broadcast) return brought(root);
    std::vector<std::byte> all;
    for (std::uint32_t other = 0; has_many_outputs() && other < ranks; ++other) {
      const auto block = brought(other);
      all.insert(all.end(), block.begin(), block.end());
    }
    return reduces() ? reduced(has_many_inputs() ? rank * block_bytes() : 0) : all;
  }

  std::string text() const {
    return fmt::format("{} of {} {} ({}), root {}{}", name_of(collective), elements,
                       coll::name_of(type), reduces() ? coll::name_of(operation) : "moved", root,
                       in_place ? ", in place" : "");
  }

 private:
  std::vector<std::byte> reduced(std::uint64_t at) const {
    alignas(64) std::byte accumulator[coll::Reduction::accumulator_bytes];
    const std::uint64_t element = coll::bytes_of(type);
    std::vector<std::byte> result(block_bytes());
    for (std::uint64_t begin = 0; begin < elements; begin += coll::Reduction::max_elements) {
      const std::uint64_t n = std::min(elements - begin, coll::Reduction::max_elements + 0ul);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const auto in = brought(rank);
        const std::byte* const from = in.data() + at + begin * element;
        rank == 0 ? reduction().first(accumulator, from, n) : reduction().add(accumulator, from, n);
      }
      reduction().finish(result.data() + begin * element, accumulator, n);
    }
    return result;
  }
};

/// One rank's part, in the form that a communicator takes.
struct SwitchCallBuffers {
  SwitchCallBuffers(const SwitchCall& call, std::uint32_t rank) : in(call.brought(rank)) {
    const std::uint64_t block = call.block_bytes();
    problem = {.collective = call.collective,
               .ranks = call.ranks,
               .rank = rank,
               .root = call.root,
               .element_bytes = call.reduces() ? coll::bytes_of(call.type) : 1,
               .in_place = call.in_place_at(rank)};
    if (call.collective != coll::Collective::barrier) problem.max_block_bytes = block;
    for (std::uint32_t i = 0; i < (call.has_many_inputs() ? call.ranks : 1); ++i)
      if (call.has_input(rank)) problem.input.push_back({i * block, block});
    for (std::uint32_t i = 0; i < (call.has_many_outputs() ? call.ranks : 1); ++i)
      if (call.has_output(rank)) problem.output.push_back({i * block, block});
    out.assign(problem.output.size() * block, std::byte{0x22});
    if (!problem.in_place) return;
    if (call.has_many_outputs()) {
      std::memcpy(out.data() + rank * block, in.data(), block);
      in = out;
      problem.input = {{rank * block, block}};
    }
    in.resize(std::max(in.size(), out.size()));
  }
  std::byte* output() { return problem.in_place ? in.data() : out.data(); }
  /// Returns a description of the error; empty if there is none.
  std::string fault(const SwitchCall& call, std::uint32_t rank) {
    const auto wanted = call.expected(rank);
    if (wanted.empty() || std::memcmp(output(), wanted.data(), wanted.size()) == 0) return "";
    std::size_t at = 0;
    while (output()[at] == wanted[at]) ++at;
    return fmt::format("rank {}, byte {} of {}: {:#x} instead of {:#x}", rank, at, wanted.size(),
                       std::to_integer<int>(output()[at]), std::to_integer<int>(wanted[at]));
  }

  coll::Problem problem;
  std::vector<std::byte> in, out;
};

inline SwitchCall draw_switch_call(std::uint32_t ranks, std::mt19937_64& random) {
  constexpr coll::Collective collectives[] = {
      coll::Collective::barrier, coll::Collective::broadcast,      coll::Collective::allgather,
      coll::Collective::reduce,  coll::Collective::reduce_scatter, coll::Collective::allreduce};
  constexpr std::uint64_t elements[] = {1, 2, 3, 16, 33, 100, 400};
  SwitchCall call{.collective = collectives[random() % std::size(collectives)],
                  .ranks = ranks,
                  .root = static_cast<std::uint32_t>(random() % ranks),
                  .in_place = random() % 2 == 0,
                  .elements = elements[random() % std::size(elements)],
                  .salt = random()};
  do {
    call.type = static_cast<coll::Datatype>(random() % coll::datatype_count);
    call.operation = static_cast<coll::Operation>(random() % coll::operation_count);
  } while (!coll::supports(call.operation, call.type) ||
           call.operation == coll::Operation::premultiplied_sum);
  return call;
}

}  // namespace penstock::sim
