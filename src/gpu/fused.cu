// Kernels of fused.hpp: one block, whose threads are all threads of the launch.
#include "gpu/fused.hpp"

namespace penstock::gpu {

namespace {

/// Accesses with system scope: other GPUs and hosts see them.
struct DeviceBlock {
  __device__ std::uint32_t thread() const { return threadIdx.x; }
  __device__ std::uint32_t threads() const { return blockDim.x; }
  __device__ std::uint64_t load(const std::uint64_t* word) const {
    std::uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ void store(std::uint64_t* word, std::uint64_t value) const {
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  __device__ void pause() const {}  // a round trip over the bus takes long enough
  __device__ void sync_threads() const { __syncthreads(); }
  __device__ bool sync_and(bool goes_on) const { return __syncthreads_and(goes_on) != 0; }
  __device__ void release_fence() const { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

  __device__ void copy(const FusedCall::Move& move, const void* from, std::uint32_t first) const {
    copy_all<true>(move, from, first);
  }
  template <bool from_pool>
  __device__ void copy_all(const FusedCall::Move& move, const void* from,
                           std::uint32_t first) const {
    const auto bits =
        reinterpret_cast<std::uintptr_t>(move.to) | reinterpret_cast<std::uintptr_t>(from);
    std::uint32_t copied = 0;
    if (bits % sizeof(uint4) == 0)
      copied = copy_words<from_pool, uint4>(move, from, 0, first);
    else if (bits % sizeof(unsigned) == 0)
      copied = copy_words<from_pool, unsigned>(move, from, 0, first);
    copy_words<from_pool, unsigned char>(move, from, copied, first);
  }
  template <class Format, class Call>
  __device__ void combine(const Call& call, const Values& values, std::uint32_t first) const {
    combine_all<Format>(call, values, first, threads());
  }

 private:
  /// Copies from byte `begin` on; returns where whole words end. Several loads are in flight at
  /// once.
  template <bool from_pool, class Word>
  __device__ std::uint32_t copy_words(const FusedCall::Move& move, const void* from,
                                      std::uint32_t begin, std::uint32_t first) const {
    const auto* const source =
        reinterpret_cast<const Word*>(static_cast<const unsigned char*>(from) + begin);
    auto* const target = reinterpret_cast<Word*>(static_cast<unsigned char*>(move.to) + begin);
    const std::uint32_t count = (move.bytes - begin) / sizeof(Word);
    constexpr std::uint32_t at_once = 4;
    const std::uint32_t step = threads();
    std::uint32_t i = first;
    for (; i + (at_once - 1) * step < count; i += at_once * step) {
      Word words[at_once];
#pragma unroll
      for (std::uint32_t k = 0; k < at_once; ++k)
        words[k] = load_from<from_pool>(source + i + k * step);
#pragma unroll
      for (std::uint32_t k = 0; k < at_once; ++k) target[i + k * step] = words[k];
    }
    for (; i < count; i += step) target[i] = load_from<from_pool>(source + i);
    return begin + count * sizeof(Word);
  }
};

}  // namespace

#define PENSTOCK_COMMA ,
#define PENSTOCK_COMBINE(type, ...)                                         \
  extern "C" __global__ void __launch_bounds__(fused_threads, 1)            \
      penstock_fused_##type(const __grid_constant__ FusedCall call) {       \
    CarryingOut<__VA_ARGS__, DeviceBlock>(call, DeviceBlock()).carry_out(); \
  }
#include "gpu/combine_table.inc"
#undef PENSTOCK_COMBINE
#undef PENSTOCK_COMMA

}  // namespace penstock::gpu
