// The size of a channel follows its use. A channel begins small, moves to a larger ring when it is
// busy, and back when it is idle. Protocol: docs/protocols/channel.md, "Small and large".
#pragma once

#include <cstdint>

#include "transport/layout.hpp"

namespace penstock::transport {

struct TxParts;

class Resizer {
 public:
  /// Call it when a channel begins.
  void begin(std::uint64_t ring_lines) { next_lap_ = ring_lines; }
  /// Call it after each message, with the number of lines written.
  void note_message(TxParts& tx, std::uint64_t head) {
    if (head >= next_lap_) note_lap(tx);
  }

  /// False while the receiver has yet to move to a small ring; that may take until the next
  /// message.
  bool may_grow(const TxParts& tx) const;
  bool wants_larger() const { return wants_larger_; }
  void want_larger(const TxParts& tx) { wants_larger_ = may_grow(tx); }
  void want_cells(const TxParts& tx);
  /// Moves to a larger ring if possible now. The receiver takes the old ring's messages first.
  bool try_to_move(TxParts& tx);
  /// False: more cells are wanted, but the receiver has not consumed the present ones yet.
  bool cells_are_ready(TxParts& tx);
  /// Gives memory of an idle channel back. Call it periodically.
  void give_back_idle(TxParts& tx, std::uint64_t now_ns);

  /// True while the receiver may still store to the previous channel.
  bool has_previous() const { return previous_.at != nullptr; }
  /// Reads the receiver's credits there, until the receiver has moved. `lines_consumed`: in the
  /// new channel.
  void read_previous_credits(TxParts& tx, std::uint64_t lines_consumed);
  /// True if the receiver has consumed everything sent there.
  bool previous_consumed() const { return !has_previous() || previous_.consumed; }
  /// The last error read there; 0: none since the last call.
  std::uint32_t take_error();
  void repair_previous(const coherence::Memory& memory);
  void give_previous_back(TxParts& tx, bool quiescent);

 private:
  static bool is_small(const TxParts& tx);
  static bool is_smallest(const TxParts& tx);
  void note_lap(TxParts& tx);
  bool move(TxParts& tx, std::uint32_t ring_lines);

  struct Previous {
    std::byte* at = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t error = 0;
    bool consumed = false;  ///< the receiver consumed everything sent there
    ChannelHeader header{};
  };
  Previous previous_;  ///< the previous channel, while the receiver may still store there
  std::uint32_t previous_error_ = 0;  ///< last one read there, not returned yet
  bool wants_larger_ = false, wants_cells_ = false;
  std::uint64_t next_lap_ = 0;  ///< the lap ends at this line number
  std::uint64_t lap_ns_ = 0, no_larger_until_ns_ = 0, next_idle_look_ns_ = 0;
};

}  // namespace penstock::transport
