// The executor of hosts for a switch that computes. This rank submits its chunks in packets, and
// reads results where the switch's packets say. If the switch is gone or answers with an error, the
// ranks agree on how many chunks it has done, and the rest of this call goes through the plain
// pool. A Mover, such as a GPU's streams, moves data between the call's buffers and the slots,
// while this thread runs the protocol (switch_moved.cpp). Protocol: docs/protocols/switch.md.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coll/switch_interface.hpp"
#include "offload/region.hpp"
#include "offload/staged_call.hpp"
#include "offload/switch_plan.hpp"

namespace penstock::coll {

class SwitchRun final : public SwitchExecutor {
 public:
  /// `inlines`: packets may hold short data.
  SwitchRun(State& state, const offload::Region& region, bool inlines);

  bool takes(const Call& call, const Prepared& prepared) const override;
  void begin(const Call& call, const Prepared& prepared) override;
  /// `missing`: the ranks awaited, or this rank itself if all ranks have sent and the switch has
  /// not answered. Errors: also mismatch and peer_dead, as the switch reports them.
  Result<bool> advance(Missing& missing) override;
  bool has_stopped() const override { return stage_ == Stage::stopped; }
  std::uint64_t done_bytes() const override;
  Result<void> give_staged() override {
    return staged_.is_there() ? staged_.store() : Result<void>{};
  }
  std::uint64_t position() const override {
    return taken_ << 4 | (moving_ ? 8 : 0) | static_cast<std::uint64_t>(stage_);
  }

  std::uint64_t packets_of_moved(const Call& call) const override;
  Schedule schedule_of_moved(const Call& call) const override;
  std::byte* moved_chunk(std::uint64_t first, std::uint32_t rank,
                         std::uint64_t chunk) const override;
  void drop_copies_of_operands() override;
  std::uint64_t packets() const override { return next_base_; }

 private:
  enum class Stage : std::uint8_t {
    served,
    leaving,
    fetching,     ///< the lanes run out, and the host fetches the input
    running_out,  ///< the lane that reads runs out; its results are discarded
    taking,
    stopped
  };

  std::optional<SwitchPlan> plan_of(const Call& call, const Problem& problem) const;

  Result<bool> serve(Missing& missing);
  void submit_more();
  void submit(std::uint64_t chunk);
  void publish_operand(std::uint64_t chunk, std::uint64_t source);
  std::uint64_t index_of(std::uint64_t chunk) const { return base_ + chunk; }
  /// The switch's packet for a chunk, from the ring of `rank`; nullopt: it has not arrived.
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

  // Used now and then, while the switch does not answer.
  Result<void> look_around(Missing& missing);
  void leave_if_unanswered();
  Result<bool> take_from_other_rings();
  void restore_packets();
  void find_missing(Missing& missing) const;
  std::uint64_t awaited_switch() const;

  // Used to continue without the switch.
  void leave(const std::string& why);
  bool agreed(Missing& missing);
  std::uint64_t left_word(std::uint32_t rank) const;
  Result<bool> take_the_rest(Missing& missing);
  bool may_still_answer();

  // For a call that a Mover moves:
  bool is_moved() const { return call().mover != nullptr; }
  bool is_operand_there(std::uint64_t chunk);
  void send_operand(std::uint64_t chunk);
  void let_take(const offload::Completion& completion);
  bool has_moved();
  bool is_for_us(std::uint32_t ring, const offload::Packet& packet) const;
  Result<bool> hand_over_to_host(Missing& missing);

  const offload::Region region_;
  const bool inlines_;
  std::uint32_t own_switch_ = 0;         ///< the switch whose slots hold this rank's results
  std::vector<std::uint64_t> switches_;  ///< tokens: of the switch or spine, then of the leaves
  Stage stage_ = Stage::served;
  SwitchPlan plan_;
  std::uint64_t base_ = 0;       ///< index of the call's first packet
  std::uint64_t next_base_ = 0;  ///< index of the next call's first packet
  std::uint64_t submitted_ = 0;  ///< chunks of the call
  std::uint64_t taken_ = 0;      ///< chunks whose results are there
  std::uint64_t cut_ = 0;        ///< chunks that the switch has done, as agreed
  std::uint64_t left_ = 0;  ///< the word that this rank published when it left; 0: it has not left
  std::atomic<bool> all_left_{false};  ///< no rank uses the switch any more
  bool moving_ = false;                ///< the Mover may take the result of the next chunk
  StagedCall staged_;
  std::uint64_t next_look_ns_ = 0;       ///< time of the next look_around()
  std::uint64_t unanswered_looks_ = 0;   ///< looks since all ranks sent the awaited chunk
  std::vector<offload::Packet> sent_;    ///< packets of the window, kept to restore them
  std::vector<std::uint64_t> finished_;  ///< used by agreed()
};

}  // namespace penstock::coll
