// The form in which a switch computes: this rank hands its chunks over by packets, and takes
// results from where the packets of the switch say. When the switch is gone, or answers with an
// error, the ranks agree on how many chunks came of it, and the rest of this very call goes through
// the plain pool. What a Mover moves, such as a GPU's streams, it moves between the call's buffers
// and the slots, and this thread keeps the protocol (switch_moved.cpp). Protocol:
// docs/protocols/switch.md.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coll/running.hpp"
#include "coll/staged_call.hpp"
#include "coll/switch_plan.hpp"
#include "offload/region.hpp"

namespace penstock::coll {

/// How a call that a switch was to do goes on.
enum class SwitchWay : std::uint8_t {
  waits,
  done,
  plain,  ///< through the plain pool, from done_bytes() on
};

class SwitchRun : public Running {
 public:
  /// `region`: nullopt where no switch serves the communicator. `inlines`: a few bytes go in their
  /// packet.
  SwitchRun(State& state, std::optional<offload::Region> region, bool inlines);

  /// Whether the call goes through the switch, or may: not once all ranks know that it is gone. One
  /// that a Mover moves is what it was prepared for.
  bool takes(const Call& call, const Prepared& prepared) const;
  /// How a call goes there whose data a Mover moves; nullopt: it does not. Any thread.
  std::optional<SwitchPlan> plan_of_moved(const Call& call) const;
  /// Where a Mover finds chunk `chunk` of a call whose first packet is `first`: this rank's slot
  /// for its operand, or, of the rank behind the last one, the switch's for the result.
  std::byte* moved_chunk(std::uint64_t first, std::uint32_t rank, std::uint64_t chunk) const;
  /// Of the calls that were begun.
  std::uint64_t packets() const { return next_base_; }
  /// The number of the collective is taken already.
  void begin(const Call& call, const Prepared& prepared);
  /// `missing`: the ranks that are waited for; this rank itself, where all have sent theirs and the
  /// switch has not answered. Errors: mismatch and peer_dead, as the switch tells.
  Result<SwitchWay> advance(Missing& missing);
  /// Of each block: what came of the switch.
  std::uint64_t done_bytes() const;
  /// The call as it goes on through the plain pool.
  const Call& rest() const { return call(); }
  /// Once it is over: what a Mover did not move is put where it belongs.
  Result<void> give_staged() { return staged_.is_there() ? staged_.store() : Result<void>{}; }
  /// Changes as the call goes on.
  std::uint64_t position() const {
    return taken_ << 4 | (moving_ ? 8 : 0) | static_cast<std::uint64_t>(stage_);
  }

 private:
  enum class Stage : std::uint8_t {
    served,
    leaving,
    fetching,     ///< the lanes run out, and the input comes to the host
    running_out,  ///< nothing counts any more of what the lane that reads does
    taking
  };

  Result<bool> serve(Missing& missing);
  void submit_more();
  void submit(std::uint64_t chunk);
  void publish_operand(std::uint64_t chunk, std::uint64_t source);
  std::uint64_t index_of(std::uint64_t chunk) const { return base_ + chunk; }
  /// The packet of the switch for a chunk, from the ring of `rank`; nullopt: it is not there.
  std::optional<offload::Packet> packet_at(std::uint32_t rank, std::uint64_t chunk) const;
  Result<bool> take_next();
  Result<void> take(std::uint32_t ring, const offload::Packet& packet);
  Result<void> refused(const offload::Completion& completion);
  bool fits(const offload::Completion& completion) const;
  Result<void> check_size(const offload::Completion& completion) const;
  bool is_result(std::uint64_t offset) const;
  void find_switches();
  void publish_member() const;
  std::optional<std::string> why_gone() const;
  void take_result(const offload::Completion& completion);
  void finish();

  // Now and then, while the switch does not answer.
  Result<void> look_around(Missing& missing);
  void leave_if_unanswered();
  Result<bool> take_from_anothers_ring();
  void restore_packets();
  void find_missing(Missing& missing) const;
  std::uint64_t awaited_switch() const;

  // Going on without the switch.
  void leave(const std::string& why);
  bool agreed(Missing& missing);
  std::uint64_t left_word(std::uint32_t rank) const;
  Result<void> take_the_rest();

  // Of a call that a Mover moves.
  bool is_moved() const { return call().mover != nullptr; }
  bool is_operand_there(std::uint64_t chunk);
  void send_operand(std::uint64_t chunk);
  void let_take(const offload::Completion& completion);
  bool has_moved();
  bool is_for_us(std::uint32_t ring, const offload::Packet& packet) const;
  Result<bool> come_to_host(Missing& missing);

  std::optional<offload::Region> region_;
  const bool inlines_;
  std::uint32_t own_switch_ = 0;         ///< whose slots this rank's results lie in
  std::vector<std::uint64_t> switches_;  ///< tokens: of the switch or spine, then of the leaves
  Stage stage_ = Stage::served;
  SwitchPlan plan_;
  std::uint64_t base_ = 0;       ///< index of the call's first packet
  std::uint64_t next_base_ = 0;  ///< of the next call's
  std::uint64_t submitted_ = 0;  ///< chunks of the call
  std::uint64_t taken_ = 0;      ///< chunks whose results are there
  std::uint64_t cut_ = 0;        ///< chunks that come of the switch, as agreed
  std::uint64_t left_ = 0;  ///< the word that this rank has published as it left; 0: it has not
  std::atomic<bool> all_left_{false};  ///< nobody uses the switch any more
  bool moving_ = false;                ///< the Mover may take the result of the next chunk
  StagedCall staged_;
  std::uint64_t next_look_ns_ = 0;       ///< around
  std::uint64_t unanswered_looks_ = 0;   ///< since all ranks had sent the awaited chunk
  std::vector<offload::Packet> sent_;    ///< of the window, to restore them
  std::vector<std::uint64_t> finished_;  ///< of agreed()
};

}  // namespace penstock::coll
