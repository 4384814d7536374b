#include "schedule/uniform.hpp"

#include <utility>

namespace penstock::coll {

Problem uniform_problem(Collective collective, std::uint32_t ranks, std::uint32_t rank,
                        std::uint32_t root, std::uint64_t bytes) {
  constexpr std::uint32_t element_bytes = 4;
  Problem p{.collective = collective,
            .ranks = ranks,
            .rank = rank,
            .root = root,
            .element_bytes = element_bytes};
  p.max_block_bytes = bytes;
  if (collective == Collective::barrier) return p;
  const auto blocks = [&](std::uint32_t count) {
    std::vector<Block> all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back({i * bytes, bytes});
    return all;
  };
  p.input = blocks(block_count(row_of(collective).input, rank == root, ranks));
  p.output = blocks(block_count(row_of(collective).output, rank == root, ranks));
  return p;
}

NodeMap nodes_in_blocks(std::uint32_t ranks, std::uint32_t per_node) {
  std::vector<std::uint64_t> nodes;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) nodes.push_back(rank / per_node);
  return NodeMap(std::move(nodes));
}

}  // namespace penstock::coll
