// Collective calls of all ranks, for tests: drawn at random, with each rank's input and expected
// output.
#pragma once

#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "schedule/arithmetic.hpp"
#include "schedule/problem.hpp"

namespace penstock::coll {

inline constexpr std::uint32_t test_word = 4;

/// Not commutative, so a wrong order of operands shows.
class WordArithmetic final : public Arithmetic {
 public:
  static std::uint32_t combined(std::uint32_t left, std::uint32_t right) {
    return left * 31 + right;
  }
  std::size_t piece_bytes() const override { return 100 * test_word; }
  void first(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override {
    std::memcpy(accumulator, in, bytes);
  }
  void add(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override {
    for (std::size_t at = 0; at < bytes; at += test_word) {
      std::uint32_t left, right;
      std::memcpy(&left, accumulator + at, test_word);
      std::memcpy(&right, in + at, test_word);
      left = combined(left, right);
      std::memcpy(accumulator + at, &left, test_word);
    }
  }
  void finish(std::byte* out, const std::byte* accumulator, std::size_t bytes) const override {
    std::memcpy(out, accumulator, bytes);
  }
};

/// A collective call of all ranks. Block sizes: bytes[p][c], or bytes[p][0] if rank p has one
/// block.
struct TestCall {
  Collective collective;
  std::uint32_t ranks, root;
  bool in_place, known;  ///< `known`: all ranks know the longest block
  std::vector<std::vector<std::uint64_t>> bytes;
  std::uint32_t salt = 0;  ///< varies the values

  bool rooted_in() const {
    return collective == Collective::broadcast || collective == Collective::scatter;
  }
  bool spreads() const {
    return collective == Collective::scatter || collective == Collective::alltoall ||
           collective == Collective::reduce_scatter;
  }
  bool gathers() const {
    return collective == Collective::gather || collective == Collective::allgather ||
           collective == Collective::alltoall;
  }
  bool has_input(std::uint32_t r) const {
    return collective != Collective::barrier && (!rooted_in() || r == root);
  }
  bool has_output(std::uint32_t r) const {
    if (collective == Collective::barrier) return false;
    if (collective == Collective::broadcast) return r != root;
    return (collective != Collective::gather && collective != Collective::reduce) || r == root;
  }
  std::uint64_t size(std::uint32_t producer, std::uint32_t consumer) const {
    return bytes[rooted_in() ? root : producer][spreads() ? consumer : 0];
  }
  bool in_place_at(std::uint32_t r) const {
    if (!in_place) return false;
    const bool one = collective == Collective::gather || collective == Collective::reduce ||
                     collective == Collective::scatter;
    return one ? r == root
               : collective != Collective::broadcast && collective != Collective::barrier;
  }
};

/// One rank's part. In place, `output` is empty and `input` serves as both.
struct Made {
  Problem problem;
  std::vector<std::byte> input, output;
};

inline std::uint32_t value_of(std::uint32_t rank, std::uint64_t at) {
  return (rank + 1) * 1000003u + static_cast<std::uint32_t>(at) * 7919u;
}

/// Places blocks one after the other, with a gap of one word.
inline std::uint64_t lay_out(std::vector<Block>* blocks, const std::vector<std::uint64_t>& sizes) {
  std::uint64_t end = 0;
  for (const std::uint64_t size : sizes) {
    blocks->push_back({end, size});
    end += size + test_word;
  }
  return end;
}

inline std::vector<std::uint64_t> sizes_in(const TestCall& w, std::uint32_t r) {
  std::vector<std::uint64_t> sizes;
  if (!w.has_input(r)) return sizes;
  for (std::uint32_t c = 0; c < (w.spreads() ? w.ranks : 1); ++c) sizes.push_back(w.size(r, c));
  return sizes;
}
inline std::vector<std::uint64_t> sizes_out(const TestCall& w, std::uint32_t r) {
  std::vector<std::uint64_t> sizes;
  if (!w.has_output(r)) return sizes;
  for (std::uint32_t p = 0; p < (w.gathers() ? w.ranks : 1); ++p) sizes.push_back(w.size(p, r));
  return sizes;
}

inline void fill(const TestCall& w, Made* made, std::uint32_t r) {
  for (const Block& block : made->problem.input) {
    for (std::uint64_t at = 0; at < block.bytes; at += test_word) {
      const std::uint32_t value =
          w.salt + value_of(r, block.offset * (made->problem.in_place ? 0 : 1) + at);
      std::memcpy(made->input.data() + block.offset + at, &value, test_word);
    }
  }
}

inline Made make(const TestCall& w, std::uint32_t r) {
  Made made;
  Problem& p = made.problem;
  p = {.collective = w.collective,
       .ranks = w.ranks,
       .rank = r,
       .root = w.root,
       .element_bytes = test_word};
  std::uint64_t in = lay_out(&p.input, sizes_in(w, r));
  std::uint64_t out = lay_out(&p.output, sizes_out(w, r));
  p.in_place = w.in_place_at(r);
  if (w.known)
    for (const auto& row : w.bytes)
      for (const std::uint64_t size : row)
        p.max_block_bytes = std::max(p.max_block_bytes.value_or(0), size);
  if (p.in_place && w.gathers() && !w.spreads()) p.input = {p.output[r]};
  if (p.in_place && w.collective == Collective::scatter) p.output = {p.input[r]};
  if (p.in_place) in = out = std::max(in, out);
  made.input.assign(in, std::byte{0x11});
  made.output.assign(p.in_place ? 0 : out, std::byte{0x22});
  fill(w, &made, r);
  return made;
}

/// The parts of all ranks, by rank.
inline std::vector<Made> make_all(const TestCall& w) {
  std::vector<Made> made;
  for (std::uint32_t rank = 0; rank < w.ranks; ++rank) made.push_back(make(w, rank));
  return made;
}

/// The value that rank `producer` contributed at byte `at` of its block for `consumer`.
inline std::uint32_t brought(const TestCall& w, const std::vector<Made>& made,
                             std::uint32_t producer, std::uint32_t consumer, std::uint64_t at) {
  const Problem& p = made[producer].problem;
  const Block& block = p.input[w.spreads() ? consumer : 0];
  return w.salt + value_of(producer, block.offset * (p.in_place ? 0 : 1) + at);
}

inline std::uint32_t expected(const TestCall& w, const std::vector<Made>& made, std::uint32_t r,
                              std::uint32_t block, std::uint64_t at) {
  if (w.rooted_in()) return brought(w, made, w.root, r, at);
  if (w.gathers()) return brought(w, made, block, r, at);
  std::uint32_t end = w.ranks, value = 0;
  if (w.collective == Collective::scan) end = r + 1;
  if (w.collective == Collective::exscan) end = r;
  for (std::uint32_t p = 0; p < end; ++p)
    value = p == 0 ? brought(w, made, p, r, at)
                   : WordArithmetic::combined(value, brought(w, made, p, r, at));
  return value;
}

/// Empty, or what is wrong with the result of rank `r`.
inline std::string check_result(const TestCall& w, const std::vector<Made>& made, std::uint32_t r,
                                const std::vector<std::byte>& memory) {
  if (w.collective == Collective::exscan && r == 0) return "";
  for (std::uint32_t b = 0; b < made[r].problem.output.size(); ++b) {
    const Block& block = made[r].problem.output[b];
    for (std::uint64_t at = 0; at < block.bytes; at += test_word) {
      std::uint32_t found;
      std::memcpy(&found, memory.data() + block.offset + at, test_word);
      if (found != expected(w, made, r, b, at))
        return fmt::format("rank {}, block {}, byte {}: {} instead of {}", r, b, at, found,
                           expected(w, made, r, b, at));
    }
  }
  return "";
}

inline Collective any_collective(std::mt19937_64& random) {
  return static_cast<Collective>(random() % collective_count);
}

/// One of the collectives that only move data.
inline Collective draw_movement(std::mt19937_64& random) {
  std::vector<Collective> movements;
  for (const CollectiveRow& row : collective_table)
    if (!is_reduction(row.collective)) movements.push_back(row.collective);
  return movements[random() % movements.size()];
}

inline TestCall draw_call(Collective collective, std::uint32_t ranks, std::mt19937_64& random) {
  TestCall w{collective,        ranks, static_cast<std::uint32_t>(random() % ranks),
             random() % 2 == 0, true,  {}};
  const bool uneven = random() % 2 == 0 && (w.spreads() || w.gathers());
  constexpr std::uint64_t words[] = {0, 1, 2, 15, 16, 17, 33, 100, 257};
  const std::uint64_t all = test_word * words[random() % std::size(words)];
  for (std::uint32_t p = 0; p < ranks; ++p) {
    w.bytes.emplace_back();
    for (std::uint32_t c = 0; c < ranks; ++c)
      w.bytes[p].push_back(uneven ? test_word * words[random() % std::size(words)] : all);
    // All ranks of a reduce_scatter name the same blocks.
    if (collective == Collective::reduce_scatter) w.bytes[p] = w.bytes[0];
    // With MPI_IN_PLACE, two ranks of an alltoall send each other equally much.
    for (std::uint32_t c = 0; collective == Collective::alltoall && w.in_place && c < p; ++c)
      w.bytes[p][c] = w.bytes[c][p];
  }
  w.known = !uneven || random() % 2 == 0;
  return w;
}

inline Algorithm draw_algorithm(Collective collective, std::mt19937_64& random) {
  const std::uint64_t drawn = random() % 4;
  if (collective == Collective::allreduce) return static_cast<Algorithm>(drawn);
  if (collective == Collective::allgather || collective == Collective::broadcast)
    return static_cast<Algorithm>(drawn == 1 ? 0 : drawn);
  if (collective == Collective::barrier)
    return drawn % 2 == 0 ? Algorithm::one_shot : Algorithm::leaders;
  return static_cast<Algorithm>(collective == Collective::reduce ? drawn % 2 : 0);
}

/// A plan for slots, with chunks of a few lines.
inline Plan draw_plan(Collective collective, std::uint32_t ranks, std::mt19937_64& random) {
  Plan plan;
  plan.algorithm = draw_algorithm(collective, random);
  const bool one = plan.algorithm == Algorithm::one_shot;
  plan.slots = static_cast<std::uint32_t>((one ? 2 : 4) + random() % 6);
  plan.slot_bytes = 64 * std::max(1u, ranks - 1) * (1 + random() % 3) + random() % 64;
  if (one) plan.variant = static_cast<Variant>(random() % 3);
  if (random() % 3 == 0) plan.chunks = 1 + static_cast<std::uint32_t>(random() % 7);
  plan.turns = random() % 2 == 0;
  return plan;
}

/// Of a call with `bytes` from each rank to each other.
inline Schedule schedule_of(Collective collective, std::uint32_t ranks, std::uint32_t rank,
                            std::uint64_t bytes, const Plan& plan, const NodeMap& nodes = {}) {
  TestCall w{collective, ranks, 0, false, true, {}};
  w.bytes.assign(ranks, std::vector<std::uint64_t>(ranks, bytes));
  const Made made = make(w, rank);
  auto schedule = build(made.problem, plan, nodes);
  if (!schedule) throw std::invalid_argument(schedule.error().message);
  return *std::move(schedule);
}

}  // namespace penstock::coll
