// The kernel of gpu/flagged.hpp on simulated nodes: the block of fused_block.hpp, whose units reach
// the pool and come from there in two halves, in any order. A proof may leave out one check.
#pragma once

#include "gpu/flagged.hpp"
#include "sim/tests/fused_block.hpp"

namespace penstock::sim {

/// Shared memory of the block.
struct FlaggedMemory {
  alignas(16) std::array<unsigned char, gpu::flagged_staging_bytes> staging{};
  std::array<const void*, gpu::FlaggedCall::max_operands> operands{};
};

class FlaggedThread : public FusedThread {
 public:
  FlaggedThread(FusedBlock& block, FlaggedMemory& shared, std::uint32_t thread)
      : FusedThread(block, thread), shared_(shared) {}

  std::uint64_t peek(const std::uint64_t* word) const { return load(word); }
  void store_unit(gpu::FlaggedUnit* to, const gpu::FlaggedUnit& unit,
                  Site site = Site::here()) const {
    const std::size_t first = random() % 2;
    for (const std::size_t i : {first, 1 - first}) {
      pause();
      store_in_pool(&to->half[i], unit.half[i], site);
    }
  }
  gpu::FlaggedUnit load_unit(const gpu::FlaggedUnit* from) const {
    gpu::FlaggedUnit unit{};
    const std::size_t first = random() % 2;
    unit.half[first] = load(&from->half[first]);
    if (random() % 4 == 0) pause();
    unit.half[1 - first] = load(&from->half[1 - first]);
    return unit;
  }
  bool has_arrived(const gpu::FlaggedUnit& unit, std::uint32_t flag,
                   Site site = Site::here()) const {
    return coherence::weakened(Weakening::wait, site) ||
           (coll::flag_in(unit.half[0]) == flag && coll::flag_in(unit.half[1]) == flag);
  }
  bool may_reuse(std::uint64_t told, std::uint64_t wanted, Site site = Site::here()) const {
    return coherence::weakened(Weakening::wait, site) || told >= wanted;
  }
  bool must_clear(std::uint64_t call, Site site = Site::here()) const {
    return coll::clears_block(call) && !coherence::weakened(Weakening::wait, site);
  }
  unsigned char* staging() const { return shared_.staging.data(); }
  const void** operands() const { return shared_.operands.data(); }

 private:
  FlaggedMemory& shared_;
};

}  // namespace penstock::sim
