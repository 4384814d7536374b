// Forwarding within a node: each rank reads a share of the data that ranks of other nodes have
// published, and publishes it for its own node. So a node reads those bytes only once. Source:
// ETRI/OSU slides (three phases), but with shares instead of a leader, and the first phase straight
// into the pool.
#pragma once

#include <functional>

#include "schedule/builder.hpp"

namespace penstock::coll {

/// Destination of the part that is read from a producer in a round; 0 bytes: none. All ranks must
/// give the same number of bytes.
using PartOf = std::function<Span(std::uint32_t producer)>;

/// Most bytes in a part, so that the shares that any rank forwards fit one chunk. The same on all
/// ranks.
std::uint64_t max_handed_part(const Problem& problem, const Plan& plan, const NodeMap& nodes);

class HandOver {
 public:
  /// `producers`: the ranks that publish, ascending.
  HandOver(const Problem& problem, const Plan& plan, const NodeMap& nodes,
           std::vector<std::uint32_t> producers);

  /// The ranks that read a part of `bytes` from this rank.
  std::vector<std::uint32_t> consumers_of(std::uint64_t bytes) const;
  /// Reads whole parts from ranks of this node, and this rank's shares of all others, from chunk
  /// `chunk` of each.
  void read_parts(Builder& builder, std::uint64_t chunk, const PartOf& part_of,
                  std::int64_t after) const;
  /// Publishes the shares that read_parts() has read from other nodes.
  void publish(Builder& builder, std::uint64_t chunk, const PartOf& part_of) const;
  /// Reads the shares that the other ranks of the node have forwarded.
  void read_shares(Builder& builder, std::uint64_t chunk, const PartOf& part_of,
                   std::int64_t after) const;

 private:
  struct Share {
    std::uint64_t at = 0;  ///< offset in the forwarded chunk
    Span span;
  };
  bool hands_on(std::uint32_t rank) const { return sharers_[rank] != 0; }
  Block share_of(std::uint32_t rank, std::uint64_t bytes) const;
  /// The shares that `rank`, of this node, forwards.
  std::vector<Share> shares_of(std::uint32_t rank, const PartOf& part_of) const;
  /// The bytes of a part of `producer` that `consumer` reads.
  Block read_by(std::uint32_t consumer, std::uint32_t producer, std::uint64_t bytes) const;

  std::uint32_t self_;
  const NodeMap& nodes_;
  std::vector<std::uint32_t> producers_, mates_;
  // By rank:
  std::vector<std::uint32_t> sharers_;  ///< ranks of its node that forward; 0: none
  std::vector<std::uint32_t> number_;   ///< its index among them; their number if it is none
  std::uint64_t share_stride_ = 0;      ///< of this node
};

}  // namespace penstock::coll
