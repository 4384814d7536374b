// Statistics that an endpoint publishes for each peer; `penstock ps --peers` shows them.
#pragma once

#include <unordered_map>
#include <vector>

#include "transport/endpoint_table.hpp"
#include "transport/transport.hpp"

namespace penstock::transport {

/// The first peers have rows in the table. Owns the arena objects for the others; the destructor
/// destroys them. Not on a hot path.
class PeerStatistics {
 public:
  PeerStatistics(arena::Arena& arena, const EndpointTable& table, const Address& self);
  /// Takes the pool's lock if there are such objects.
  ~PeerStatistics();
  PeerStatistics(const PeerStatistics&) = delete;
  PeerStatistics& operator=(const PeerStatistics&) = delete;

  /// Makes a row for `peer`. Takes the pool's lock if the table has no row left; making a channel
  /// may take it anyway.
  void make_room(Peer peer);
  /// Publishes a changed row; skips peers without a row. Takes no lock: a peer that was stopped
  /// while it held the lock must not block a process that waits for messages. The caller does the
  /// store fence.
  void publish(Peer peer, std::uint32_t generation, const EndpointStats& counts);

 private:
  static constexpr std::uint32_t no_row = ~0u;
  /// The index of the peer's row; makes the row if there is room.
  std::uint32_t row_of(Peer peer);
  bool make_piece();

  arena::Arena* arena_;
  std::byte* first_rows_;
  std::uint64_t first_key_;
  Address self_;
  std::vector<arena::Object> pieces_;
  std::vector<PeerStatisticsRow> rows_;             ///< as published
  std::unordered_map<Peer, std::uint32_t> row_of_;  ///< index in `rows_`
  bool full_ = false;                               ///< the pool has no space for more rows
};

}  // namespace penstock::transport
