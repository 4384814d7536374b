// What ranks of one node do for each other: each reads a share of what ranks of other nodes have
// published, and hands it on, so that a node reads those bytes once. Source: the three phases of
// papers/5-switch.md, 5.2; with shares instead of a leader, and the first phase straight into the
// pool ("better than published").
#pragma once

#include <functional>

#include "coll/builder.hpp"

namespace penstock::coll {

/// What is read of a producer in a round, and where it goes; 0 bytes: nothing. The same number of
/// bytes on all ranks.
using PartOf = std::function<Span(std::uint32_t producer)>;

/// Bytes of a part at most, so that what any rank hands on fits one chunk. The same on all ranks.
std::uint64_t max_handed_part(const Problem& problem, const Plan& plan, const NodeMap& nodes);

class HandOver {
 public:
  /// `producers`: ranks that publish, ascending.
  HandOver(const Problem& problem, const Plan& plan, const NodeMap& nodes,
           std::vector<std::uint32_t> producers);

  /// Who reads a part of `bytes` of this rank.
  std::vector<std::uint32_t> consumers_of(std::uint64_t bytes) const;
  /// All of the parts of this node, and this rank's shares of the others, in chunk `chunk` of each.
  void read_parts(Builder& builder, std::uint64_t chunk, const PartOf& part_of,
                  std::int64_t after) const;
  /// What read_parts() has read of other nodes.
  void publish(Builder& builder, std::uint64_t chunk, const PartOf& part_of) const;
  /// The shares that the others of the node have read.
  void read_shares(Builder& builder, std::uint64_t chunk, const PartOf& part_of,
                   std::int64_t after) const;

 private:
  struct Share {
    std::uint64_t at = 0;  ///< in the chunk that is handed on
    Span span;
  };
  bool hands_on(std::uint32_t rank) const { return sharers_[rank] != 0; }
  Block share_of(std::uint32_t rank, std::uint64_t bytes) const;
  /// What `rank`, of this node, hands on.
  std::vector<Share> shares_of(std::uint32_t rank, const PartOf& part_of) const;
  /// Bytes of a part of `producer` that `consumer` reads.
  Block read_by(std::uint32_t consumer, std::uint32_t producer, std::uint64_t bytes) const;

  std::uint32_t self_;
  const NodeMap& nodes_;
  std::vector<std::uint32_t> producers_, mates_;
  // By rank:
  std::vector<std::uint32_t> sharers_;  ///< of its node; 0: none of it hands anything on
  std::vector<std::uint32_t> number_;   ///< its own among them; as many as they are: it is none
  std::uint64_t share_stride_ = 0;      ///< of this node
};

}  // namespace penstock::coll
