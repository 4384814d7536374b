// The table of arrivals: for each chunk that may be in flight, the packets of its senders, in the
// order of their rings.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "offload/region.hpp"
#include "pool/pool.hpp"

namespace penstock::accelerator {

class Arrivals {
 public:
  /// `rings`: the rings on which packets are awaited; each packet must state that there are
  /// `ranks`.
  Arrivals(const pool::Pool& pool, const offload::Region& region, std::vector<std::uint32_t> rings,
           std::uint32_t ranks);

  /// Looks once at the rings that may have a packet for chunks below `end`. Returns true if there
  /// are new ones. One device access.
  bool look(std::uint64_t end);

  /// The sender of an invalid packet, and what is wrong with the packet.
  struct Damage {
    std::uint32_t ring = 0;
    std::string what;
  };
  const std::optional<Damage>& damage() const { return damage_; }

  const std::vector<std::uint32_t>& rings() const { return rings_; }
  bool any(std::uint64_t index) const { return at(index).count != 0; }
  bool all(std::uint64_t index) const { return at(index).count == rings_.size(); }
  /// Whether the k-th ring's packet has arrived.
  bool has(std::uint64_t index, std::size_t k) const { return at(index).of[k].has_value(); }
  std::uint64_t first_ns(std::uint64_t index) const { return at(index).first_ns; }
  /// The packets that have arrived, in the order of the rings.
  void commands(std::uint64_t index, std::vector<offload::Command>& to) const;
  /// The chunk is done: a later chunk takes its place.
  void clear(std::uint64_t index);
  std::uint64_t taken() const { return taken_; }

 private:
  struct Chunk {
    std::vector<std::optional<offload::Command>> of;  ///< by ring
    std::uint32_t count = 0;
    std::uint64_t first_ns = 0;
  };
  bool take(std::size_t k, const offload::Packet& packet);
  Chunk& at(std::uint64_t index) { return chunks_[index % chunks_.size()]; }
  const Chunk& at(std::uint64_t index) const { return chunks_[index % chunks_.size()]; }

  const pool::Pool& pool_;
  const offload::Region region_;
  const std::vector<std::uint32_t> rings_;
  const std::uint32_t ranks_;
  std::vector<Chunk> chunks_;           ///< by index, of the window
  std::vector<std::uint64_t> next_;     ///< by ring: the index of the next packet
  std::vector<std::uint32_t> damaged_;  ///< by ring: looks at a packet that is not valid
  std::vector<std::size_t> looked_;     ///< rings that this look reads
  std::optional<Damage> damage_;
  std::uint64_t taken_ = 0;
};

}  // namespace penstock::accelerator
