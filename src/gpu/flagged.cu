// Kernels of flagged.hpp: one block, with the accesses of fused.cu. A unit is stored and loaded by
// one instruction each.
#include "gpu/flagged.hpp"

namespace penstock::gpu {

namespace {

struct FlaggedMemory {
  uint4 staging[flagged_staging_bytes / sizeof(uint4)];
  const void* operands[FlaggedCall::max_operands];
};

/// Each half of a unit is an access of its own in the memory model, and relaxed of the system's
/// scope: it is whole, and comes from where hosts and other GPUs see it.
class FlaggedBlock : public DeviceBlock {
 public:
  __device__ explicit FlaggedBlock(FlaggedMemory& shared) : shared_(shared) {}

  __device__ std::uint64_t peek(const std::uint64_t* word) const {
    std::uint64_t value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ void store_unit(FlaggedUnit* to, const FlaggedUnit& unit) const {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(unit.half[0]),
                 "l"(unit.half[1])
                 : "memory");
  }
  __device__ FlaggedUnit load_unit(const FlaggedUnit* from) const {
    FlaggedUnit unit;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(unit.half[0]), "=l"(unit.half[1])
                 : "l"(from)
                 : "memory");
    return unit;
  }
  /// From the GPU's memory or the block's. A call, because kernels have it in two places.
  __device__ __noinline__ void copy(const FusedCall::Move& move, const void* from,
                                    std::uint32_t first) const {
    copy_all<false>(move, from, first);
  }
  __device__ bool has_arrived(const FlaggedUnit& unit, std::uint32_t flag) const {
    return coll::flag_in(unit.half[0]) == flag && coll::flag_in(unit.half[1]) == flag;
  }
  __device__ bool may_reuse(std::uint64_t told, std::uint64_t wanted) const {
    return told >= wanted;
  }
  __device__ bool must_clear(std::uint64_t call) const { return coll::clears_block(call); }
  __device__ unsigned char* staging() const {
    return reinterpret_cast<unsigned char*>(shared_.staging);
  }
  __device__ const void** operands() const { return shared_.operands; }

 private:
  FlaggedMemory& shared_;
};

}  // namespace

#define PENSTOCK_COMMA ,
#define PENSTOCK_COMBINE(type, ...)                                                     \
  extern "C" __global__ void __launch_bounds__(fused_threads, 1)                        \
      penstock_flagged_##type(const __grid_constant__ FlaggedCall call) {               \
    __shared__ FlaggedMemory shared;                                                    \
    CarryingFlagged<__VA_ARGS__, FlaggedBlock>(call, FlaggedBlock(shared)).carry_out(); \
  }
#include "gpu/combine_table.inc"
#undef PENSTOCK_COMBINE
#undef PENSTOCK_COMMA

}  // namespace penstock::gpu
