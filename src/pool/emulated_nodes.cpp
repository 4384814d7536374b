#include "pool/emulated_nodes.hpp"

namespace penstock::pool {

std::uint32_t emulated_node_of(std::uint32_t rank, std::uint32_t size, std::uint32_t nodes,
                               bool by_block) {
  if (nodes > size) nodes = size;
  if (nodes <= 1) return 0;
  if (!by_block) return rank % nodes;
  const std::uint32_t block = size / nodes, longer = size % nodes;
  const std::uint32_t in_longer = (block + 1) * longer;
  return rank < in_longer ? rank / (block + 1) : (rank - longer) / block;
}

std::uint32_t local_rank_of(std::uint32_t rank, std::uint32_t size, std::uint32_t nodes,
                            bool by_block) {
  if (nodes > size) nodes = size;
  if (nodes <= 1) return rank;
  if (!by_block) return rank / nodes;
  const std::uint32_t block = size / nodes, longer = size % nodes;
  const std::uint32_t in_longer = (block + 1) * longer;
  return rank < in_longer ? rank % (block + 1) : (rank - longer) % block;
}

}  // namespace penstock::pool
