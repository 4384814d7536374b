#include "schedule/hand_over.hpp"

#include "base/checked.hpp"

namespace penstock::coll {

namespace {

/// The number of publishing ranks on other nodes than `node`.
std::uint32_t producers_outside(const Problem& problem, const NodeMap& nodes,
                                const NodeMap::Node& node) {
  if (problem.collective == Collective::broadcast)
    return nodes.node_of(problem.root) == node.number ? 0 : 1;
  return problem.ranks - node.ranks;
}

std::uint32_t sharers_of(const Plan& plan, const NodeMap::Node& node) {
  return plan.algorithm == Algorithm::leaders ? 1 : node.ranks;
}

/// Bytes from one share to the next in the chunk that a rank of the node forwards; 0: it forwards
/// nothing.
std::uint64_t stride_of(const Problem& problem, const Plan& plan, const NodeMap& nodes,
                        const NodeMap::Node& node) {
  const std::uint32_t others = producers_outside(problem, nodes, node);
  if (node.ranks == 1 || others == 0) return 0;
  return plan.slot_bytes / others / coherence::line_bytes * coherence::line_bytes;
}

}  // namespace

std::uint64_t max_handed_part(const Problem& problem, const Plan& plan, const NodeMap& nodes) {
  std::uint64_t most = ~0ull;
  for (const NodeMap::Node& node : nodes.all()) {
    if (node.ranks == 1 || producers_outside(problem, nodes, node) == 0) continue;
    most = std::min(most, stride_of(problem, plan, nodes, node) * sharers_of(plan, node));
  }
  return most;
}

HandOver::HandOver(const Problem& problem, const Plan& plan, const NodeMap& nodes,
                   std::vector<std::uint32_t> producers)
    : self_(problem.rank),
      nodes_(nodes),
      producers_(std::move(producers)),
      mates_(nodes.mates_of(problem.rank)),
      sharers_(problem.ranks),
      number_(problem.ranks) {
  for (const NodeMap::Node& node : nodes.all()) {
    if (node.ranks == 1 || producers_outside(problem, nodes, node) == 0) continue;
    std::uint32_t number = 0;
    for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
      if (nodes.node_of(rank) != node.number) continue;
      sharers_[rank] = sharers_of(plan, node);
      number_[rank] = std::min(number++, sharers_[rank]);
      if (rank == self_) share_stride_ = stride_of(problem, plan, nodes, node);
    }
  }
}

/// Whole lines. All ranks of the node get equally many, except the last ones.
Block HandOver::share_of(std::uint32_t rank, std::uint64_t bytes) const {
  const std::uint64_t sharers = sharers_[rank];
  if (number_[rank] >= sharers) return {};
  const std::uint64_t each = base::align_up((bytes + sharers - 1) / sharers, coherence::line_bytes);
  const std::uint64_t begin = std::min(bytes, number_[rank] * each);
  return {begin, std::min(bytes - begin, each)};
}

Block HandOver::read_by(std::uint32_t consumer, std::uint32_t producer, std::uint64_t bytes) const {
  const bool whole = nodes_.node_of(consumer) == nodes_.node_of(producer) || !hands_on(consumer);
  return whole ? Block{0, bytes} : share_of(consumer, bytes);
}

std::vector<std::uint32_t> HandOver::consumers_of(std::uint64_t bytes) const {
  std::vector<std::uint32_t> consumers;
  for (std::uint32_t k = 1; k < nodes_.ranks(); ++k) {
    const std::uint32_t consumer = (self_ + k) % nodes_.ranks();
    if (read_by(consumer, self_, bytes).bytes != 0) consumers.push_back(consumer);
  }
  return consumers;
}

void HandOver::read_parts(Builder& builder, std::uint64_t chunk, const PartOf& part_of,
                          std::int64_t after) const {
  for (std::uint32_t k = 0; k + 1 < builder.ranks(); ++k) {
    const std::uint32_t producer = builder.previous(k);
    if (!std::binary_search(producers_.begin(), producers_.end(), producer)) continue;
    const Span to = part_of(producer);
    const Block part = read_by(self_, producer, to.bytes);
    if (part.bytes == 0) continue;
    builder.wait(producer, chunk);
    builder.copy(producer, chunk, part.offset, {to.buffer, to.offset + part.offset, part.bytes},
                 after);
    builder.release(producer, chunk);
  }
}

std::vector<HandOver::Share> HandOver::shares_of(std::uint32_t rank, const PartOf& part_of) const {
  std::vector<Share> shares;
  std::uint64_t at = 0;
  for (const std::uint32_t producer : producers_) {
    if (nodes_.node_of(producer) == nodes_.node_of(rank)) continue;
    const Span to = part_of(producer);
    const Block share = share_of(rank, to.bytes);
    if (share.bytes != 0)
      shares.push_back({at, {to.buffer, to.offset + share.offset, share.bytes}});
    at += share_stride_;
  }
  return shares;
}

void HandOver::publish(Builder& builder, std::uint64_t chunk, const PartOf& part_of) const {
  if (!hands_on(self_)) return;
  std::vector<Part> parts;
  for (const Share& share : shares_of(self_, part_of)) parts.push_back({share.span, share.at});
  if (parts.empty()) return;
  std::vector<std::uint32_t> consumers;
  for (const std::uint32_t mate : mates_)
    if (mate != self_) consumers.push_back(mate);
  builder.publish(chunk, parts, consumers, builder.last_step());
}

void HandOver::read_shares(Builder& builder, std::uint64_t chunk, const PartOf& part_of,
                           std::int64_t after) const {
  if (!hands_on(self_)) return;
  for (std::uint32_t k = 0; k + 1 < builder.ranks(); ++k) {
    const std::uint32_t mate = builder.previous(k);
    if (nodes_.node_of(mate) != nodes_.node_of(self_)) continue;
    const auto shares = shares_of(mate, part_of);
    if (shares.empty()) continue;
    builder.wait(mate, chunk);
    for (const Share& share : shares) builder.copy(mate, chunk, share.at, share.span, after);
    builder.release(mate, chunk);
  }
}

}  // namespace penstock::coll
