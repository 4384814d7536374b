// The slot form: chunks in slots, each with a doorbell, moved by this thread in the order of the
// steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coll/slot_signals.hpp"

namespace penstock::coll {

/// Chunks in slots, each with a doorbell. A slot is used again after it was released.
class SlotRun final : public SlotSignals {
 public:
  SlotRun(State& state, SlotReaders& readers, std::uint64_t zero_copy_bytes)
      : SlotSignals(state, readers),
        zero_copy_bytes_(zero_copy_bytes),
        borrowed_(state.group.ranks()) {}
  void begin(const Call& call, const Prepared& prepared) override;
  Result<bool> advance(Missing& missing) override;

 private:
  Result<void> take(std::size_t index);
  /// Waits for the steps of one kind from the next one on.
  Result<bool> wait_for_run(StepKind kind, Missing& missing);
  void publish(std::size_t index);
  void ring(const Step& step);
  Result<void> copy_together();
  Result<void> combine_chunks(const Step& step);
  // For zero copy:
  bool stays(std::size_t publish) const;
  Result<const std::byte*> find(std::uint32_t producer, std::uint64_t number, std::uint64_t at,
                                std::uint64_t bytes);
  Result<void> give_back_borrowed();
  bool all_given_back(Missing& missing);

  std::size_t run_end_ = 0;
  std::uint64_t zero_copy_bytes_;
  std::uint64_t open_chunk_ = 0;           ///< the chunk being published, + 1
  bool open_stays_ = false;                ///< it stays in the user's buffer
  std::uint64_t lent_ = 0;                 ///< the last chunk that stays there, + 1
  std::vector<std::uint64_t> borrowed_;    ///< by producer: the last such chunk read, + 1
  std::vector<std::uint32_t> not_back_;    ///< readers that have not released the lent chunks
  std::vector<std::uint32_t> lenders_;     ///< producers of the borrowed chunks
  std::vector<const std::byte*> sources_;  ///< sources of a combine's operands, or of copies
};

}  // namespace penstock::coll
