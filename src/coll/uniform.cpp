#include "coll/uniform.hpp"

#include <utility>

namespace penstock::coll {

bool spreads(Collective collective) {
  return collective == Collective::scatter || collective == Collective::alltoall ||
         collective == Collective::reduce_scatter;
}

bool gathers(Collective collective) {
  return collective == Collective::gather || collective == Collective::allgather ||
         collective == Collective::alltoall;
}

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
  const bool is_root = rank == root;
  const bool from_root = collective == Collective::broadcast || collective == Collective::scatter;
  const bool to_root = collective == Collective::gather || collective == Collective::reduce;
  const auto blocks = [&](std::uint32_t count) {
    std::vector<Block> all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back({i * bytes, bytes});
    return all;
  };
  if (!from_root || is_root) p.input = blocks(spreads(collective) ? ranks : 1);
  if ((!to_root || is_root) && !(collective == Collective::broadcast && is_root))
    p.output = blocks(gathers(collective) ? ranks : 1);
  return p;
}

NodeMap nodes_in_blocks(std::uint32_t ranks, std::uint32_t per_node) {
  std::vector<std::uint64_t> nodes;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) nodes.push_back(rank / per_node);
  return NodeMap(std::move(nodes));
}

}  // namespace penstock::coll
