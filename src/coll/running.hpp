// The two forms in which a schedule runs: eager, in tagged lines, and slots, with doorbells.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "coll/lane_pace.hpp"
#include "coll/lane_program.hpp"
#include "coll/prepared.hpp"
#include "coll/state.hpp"
#include "coll/trace.hpp"

namespace penstock::coll {

/// A call in progress, and the memory that its steps need.
class Running {
 public:
  explicit Running(State& state) : s_(state), trace_(Trace::of_process()) {}

  void begin(const Call& call, const Prepared& prepared);
  const Call& call() const { return call_; }
  const Prepared& prepared() const { return *prepared_; }

  std::byte* to(const Span& span);
  const std::byte* from(const Span& span) const;
  void move(const Step& step);
  /// `operand(i, at, bytes, staging)`: returns `bytes` bytes of operand i from byte `at` on. It may
  /// copy them into `staging`.
  template <class Fetch>
  void combine(const Step& step, const Fetch& operand) {
    const Arithmetic& arithmetic = *call_.arithmetic;
    const std::size_t piece = arithmetic.piece_bytes();
    std::byte* const result = to(step.span);
    for (std::uint64_t at = 0; at < step.span.bytes; at += piece) {
      const std::size_t bytes = std::min<std::uint64_t>(piece, step.span.bytes - at);
      if (step.operand_count == 1 && !arithmetic.changes_one()) {  // unchanged
        std::memmove(result + at, operand(0, at, bytes, pieces_[0].data()), bytes);
        continue;
      }
      if (step.operand_count == 2) {
        const std::byte* const left = operand(0, at, bytes, pieces_[0].data());
        arithmetic.pair(result + at, left, operand(1, at, bytes, pieces_[1].data()), bytes,
                        accumulator_.data());
        continue;
      }
      for (std::uint32_t i = 0; i < step.operand_count; ++i) {
        const std::byte* const value = operand(i, at, bytes, pieces_[0].data());
        if (i == 0) arithmetic.first(accumulator_.data(), value, bytes);
        if (i != 0) arithmetic.add(accumulator_.data(), value, bytes);
      }
      arithmetic.finish(result + at, accumulator_.data(), bytes);
    }
  }
  const Operand& operand(const Step& step, std::uint32_t i) const {
    return prepared_->schedule.operands[step.first_operand + i];
  }

 protected:
  /// Continues the call in progress as another call, for the same problem.
  void go_on_as(const Call& call) { call_ = call; }
  /// Call this when the steps from `first` to `end` are done and all earlier steps were recorded.
  void done(std::size_t first, std::size_t end) {
    if (trace_ != nullptr) [[unlikely]]
      record(first, end);
  }

  State& s_;

 private:
  void record(std::size_t first, std::size_t end);

  Trace* const trace_;
  std::uint64_t recorded_until_ns_ = 0;
  Call call_;
  const Prepared* prepared_ = nullptr;
  std::vector<std::byte> scratch_;
  alignas(64) std::array<std::byte, Reduction::accumulator_bytes> accumulator_;
  alignas(64) std::array<std::array<std::byte, Arithmetic::max_piece_bytes>, 2> pieces_;
};

/// One chunk of each rank in tagged lines, which need no doorbell. All awaited lines are polled
/// together, so after the last has arrived the read costs one device access.
class EagerRun : public Running {
 public:
  using Running::Running;
  void begin(const Call& call, const Prepared& prepared);
  /// Returns true when done. `missing`: the ranks awaited.
  Result<bool> advance(Missing& missing);
  /// Changes as the call progresses.
  std::uint64_t position() const {
    return (stage_ == Stage::published ? 1u : 0u) + (pending_.empty() ? 0 : pending_[0].arrived);
  }

 private:
  enum class Stage : std::uint8_t { begun, published };
  struct Pending {
    std::uint32_t read;         ///< its index
    std::uint64_t arrived = 0;  ///< payload bytes that have arrived
    bool in_vain = false;       ///< nothing arrived at the last look
  };
  /// The lines to poll for a read, and their payload.
  struct Window {
    const std::byte* lines = nullptr;
    std::uint64_t first_line = 0;
    std::uint64_t begin = 0, bytes = 0;  ///< in the payload
  };
  void publish(const Step& step);
  void publish_all();
  Window window_of(const Pending& pending) const;
  bool take_arrived();
  bool look_at_all();
  bool look(Pending& pending);
  void finish_steps();
  std::byte* destination(const EagerRead& read);

  Stage stage_ = Stage::begun;
  std::vector<Pending> pending_;
  std::vector<std::byte> staging_;
  std::vector<Use> last_use_;  ///< by block
};

/// Chunks in slots, each with a doorbell. A slot is used again after it was released.
class SlotRun : public Running {
 public:
  SlotRun(State& state, std::uint64_t zero_copy_bytes)
      : Running(state), zero_copy_bytes_(zero_copy_bytes), borrowed_(state.group.ranks()) {}
  void begin(const Call& call, const Prepared& prepared);
  Result<bool> advance(Missing& missing);
  std::uint64_t position() const { return next_; }

 protected:
  /// Whether this rank may write its slots of the half. `missing`: ranks that still read them.
  bool is_half_free(Missing& missing);
  // Poll each step of `looks_`, or of `pending_`, once. Waits that are over leave `pending_`.
  Result<void> look_for_doorbells();
  bool has_rung_before(const Step& step);
  void look_for_releases();
  void ring(const Step& step);
  void release(const Step& step);
  std::byte* chunk(std::uint32_t producer, std::uint64_t number, std::uint64_t at) const;
  bool is_over(const Step& wait);
  /// Whether a chunk that has arrived is still in its producer's buffer.
  bool is_lent(std::uint32_t producer, std::uint64_t number);

  std::size_t next_ = 0;
  std::vector<std::size_t> pending_;  ///< waits of the current run that are not over
  std::vector<std::size_t> looks_;    ///< waits for doorbells that are polled together

 private:
  Result<void> take(std::size_t index);
  /// Waits for the steps of one kind from the next one on.
  Result<bool> wait_for_run(StepKind kind, Missing& missing);
  void publish(std::size_t index);
  Result<void> copy_together();
  Result<void> combine_chunks(const Step& step);
  // For zero copy:
  bool stays(std::size_t publish) const;
  Result<const std::byte*> find(std::uint32_t producer, std::uint64_t number, std::uint64_t at,
                                std::uint64_t bytes);
  Result<void> give_back_borrowed();
  bool all_given_back(Missing& missing);
  std::uint64_t& seen(const Step& wait);

  std::uint32_t devices_ = 1;
  std::size_t run_end_ = 0;
  std::uint64_t zero_copy_bytes_;
  std::uint64_t open_chunk_ = 0;           ///< the chunk being published, + 1
  bool open_stays_ = false;                ///< it stays in the user's buffer
  std::uint64_t lent_ = 0;                 ///< the last chunk that stays there, + 1
  std::vector<std::uint64_t> borrowed_;    ///< by producer: the last such chunk read, + 1
  std::vector<std::uint32_t> not_back_;    ///< readers that have not released the lent chunks
  std::vector<std::uint32_t> lenders_;     ///< producers of the borrowed chunks
  std::vector<const std::byte*> sources_;  ///< sources of a combine's operands, or of copies
  bool free_ = false;                      ///< this rank may write the half's slots
  std::vector<std::uint64_t> seen_;        ///< doorbell words, by rank and slot
  std::array<Use, halves> last_use_;
};

/// The slot form. If the call has a Mover, it moves the data, and this thread runs the protocol.
class LaneRun : public SlotRun {
 public:
  LaneRun(State& state, std::uint64_t zero_copy_bytes, std::uint64_t long_call_bytes)
      : SlotRun(state, zero_copy_bytes), long_call_bytes_(long_call_bytes) {}
  void begin(const Call& call, const Prepared& prepared);
  Result<bool> advance(Missing& missing);
  /// Called between two looks. In a long call of a Mover it sleeps while chunks move.
  void rest() { pace_.rest(); }

 private:
  enum class Stage : std::uint8_t { waits, moves };
  struct LaneState {
    Stage stage = Stage::waits;
    bool begun = false;  ///< the segment's waits have begun
    std::size_t segment = 0;
    std::uint64_t bytes = 0;  ///< moved since the last mark
    std::vector<std::size_t> pending;
    /// Whether everything of `segments` is published. A proof may leave out the wait for that.
    bool has_announced(std::size_t segments, Site site = Site::here()) const {
      return segment == segments || coherence::weakened(coherence::Weakening::wait, site);
    }
  };
  Result<bool> advance_lane(Lane lane, Missing& missing);
  Result<bool> waits_are_over(const Segment& segment, LaneState& at, Missing& missing);
  bool comes_too_early(Lane lane, std::size_t segment) const;
  Result<void> make_readable(const Segment& segment);
  void signal(const Segment& segment);

  const std::uint64_t long_call_bytes_;
  LanePace pace_;
  std::array<LaneState, lane_count> at_;
  bool is_read_apart_ = false;  ///< ranks of other nodes read what this rank publishes in the call
};

}  // namespace penstock::coll
