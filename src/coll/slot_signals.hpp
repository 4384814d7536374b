// Doorbells and releases, and the half of this rank's slots that a call may write: for all
// executors that use slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coll/executor.hpp"

namespace penstock::coll {

/// The last readers of each half of this rank's slots. The executors of a communicator share it.
using SlotReaders = std::array<Use, halves>;

class SlotSignals : public Executor {
 public:
  SlotSignals(State& state, SlotReaders& readers) : Executor(state), readers_(readers) {}
  void begin(const Call& call, const Prepared& prepared) override;
  std::uint64_t position() const override { return next_; }

 protected:
  /// Whether this rank may write its slots of the half. `missing`: ranks that still read them.
  bool is_half_free(Missing& missing);
  // Poll each step of `looks_`, or of `pending_`, once. Waits that are over leave `pending_`.
  Result<void> look_for_doorbells();
  void look_for_releases();
  bool is_over(const Step& wait);
  /// Rings for a chunk. `stays`: it stays in the user's buffer (zero_copy.hpp).
  void ring(const Step& step, bool stays = false);
  void release(const Step& step);
  std::byte* chunk(std::uint32_t producer, std::uint64_t number, std::uint64_t at) const;
  /// Whether a chunk that has arrived is still in its producer's buffer.
  bool is_lent(std::uint32_t producer, std::uint64_t number);

  std::size_t next_ = 0;              ///< the next step of the call, or of a LaneRun's segments
  std::vector<std::size_t> pending_;  ///< waits of the current run that are not over
  std::vector<std::size_t> looks_;    ///< waits for doorbells that are polled together

 private:
  bool has_rung_before(const Step& step);
  std::uint64_t& seen(const Step& wait);

  SlotReaders& readers_;
  std::uint32_t devices_ = 1;
  bool free_ = false;                ///< this rank may write the half's slots
  std::vector<std::uint64_t> seen_;  ///< doorbell words, by rank and slot
};

}  // namespace penstock::coll
