// Kernels of combine.hpp. A thread takes 16 bytes of an operand at once if all are aligned to that,
// and several such words before it uses the first: reads of the pool over the bus cost by the
// request, and take long.
#include "gpu/combine.hpp"

namespace penstock::gpu {

namespace {

constexpr unsigned wide_bytes = 16;

/// Loads from the pool are volatile: others write a chunk while this GPU runs, and no older copy of
/// it may be used. Such a load is of global memory; others may be of shared memory.
template <bool from_pool, class Word>
__device__ Word load_from(const Word* at) {
  if constexpr (from_pool) return __ldcv(at);
  return *at;
}

__device__ bool is_wide(const Values& values) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(values.result);
  for (std::uint32_t k = 0; k < values.operands; ++k)
    bits |= reinterpret_cast<std::uintptr_t>(values.operand[k]);
  return bits % wide_bytes == 0;
}

/// How much a thread loads before it uses the first of it: `words` times 16 bytes of `operands`
/// ranks each. All of it waits in registers, and of each word the sums of its elements.
/// 8 loads in all; 4 of a type of one byte, whose words have 16 sums each; 2 in a fused launch,
/// whose block has few registers for a thread, and for operations that are rare.
template <class Call, class Arithmetic>
struct Loads {
  static constexpr bool is_rare =
      Arithmetic::family == Family::product || Arithmetic::family == Family::bits;
  static constexpr bool from_pool = Call::reduces_in_pool;
  static constexpr unsigned operands = 2;
  static constexpr unsigned words = !std::is_same_v<Call, Combine> || is_rare ? 1
                                    : sizeof(typename Arithmetic::Word) == 1  ? 2
                                                                              : 4;
};

/// 16 bytes of each operand, at `i` and at `words` - 1 places behind, before `end`.
template <class Loads, class Arithmetic>
__device__ void combine_wide(const Values& values, std::size_t i, std::size_t stride,
                             std::size_t end, const Arithmetic& arithmetic) {
  using Word = typename Arithmetic::Word;
  constexpr unsigned count = wide_bytes / sizeof(Word);
  constexpr unsigned operands = Loads::operands, words = Loads::words;
  typename Arithmetic::Accumulated sums[words][count];
  for (std::uint32_t k = 0; k < values.operands; k += operands) {
    uint4 bits[operands][words] = {};
#pragma unroll
    for (unsigned o = 0; o < operands; ++o)
#pragma unroll
      for (unsigned w = 0; w < words; ++w)
        if (k + o < values.operands && i + w * stride < end)
          bits[o][w] = load_from<Loads::from_pool>(
              static_cast<const uint4*>(values.operand[k + o]) + i + w * stride);
#pragma unroll
    for (unsigned o = 0; o < operands; ++o) {
      if (k + o >= values.operands) break;
#pragma unroll
      for (unsigned w = 0; w < words; ++w) {
        Word elements[count];
        memcpy(elements, &bits[o][w], sizeof elements);
#pragma unroll
        for (unsigned e = 0; e < count; ++e) {
          const auto value = arithmetic.decoded(elements[e]);
          sums[w][e] = k + o == 0 ? value : arithmetic.combined(sums[w][e], value);
        }
      }
    }
  }
#pragma unroll
  for (unsigned w = 0; w < words; ++w) {
    if (i + w * stride >= end) break;
    Word elements[count];
#pragma unroll
    for (unsigned e = 0; e < count; ++e) elements[e] = arithmetic.encoded(sums[w][e], values.ranks);
    uint4 bits;
    memcpy(&bits, elements, sizeof bits);
    static_cast<uint4*>(values.result)[i + w * stride] = bits;
  }
}

/// A thread's part: the `first` 16 bytes, those `stride` further, and so on. `Call` is Combine or
/// FusedCall.
template <class Call, class Arithmetic>
__device__ void combine_part(const Values& values, std::size_t first, std::size_t stride,
                             const Arithmetic& arithmetic) {
  using Loads = Loads<Call, Arithmetic>;
  constexpr std::size_t count = wide_bytes / sizeof(typename Arithmetic::Word);
  const std::size_t wide = is_wide(values) ? values.elements / count : 0;
  for (std::size_t i = first; i < wide; i += Loads::words * stride)
    combine_wide<Loads>(values, i, stride, wide, arithmetic);
  for (std::size_t i = wide * count + first; i < values.elements; i += stride)
    combine_one(values, i, arithmetic);
}

template <class Format, class Call>
__device__ void combine_all(const Call& call, const Values& values, std::size_t first,
                            std::size_t stride) {
  with_arithmetic<Format>(
      call, [&](const auto& arithmetic) { combine_part<Call>(values, first, stride, arithmetic); });
}

template <class Format>
__device__ void combine_by_all_blocks(const Combine& call) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  combine_all<Format>(call, call.values(), thread, stride);
}

}  // namespace

#define PENSTOCK_COMMA ,
#define PENSTOCK_COMBINE(type, ...)                                                          \
  extern "C" __global__ void penstock_combine_##type(const __grid_constant__ Combine call) { \
    combine_by_all_blocks<__VA_ARGS__>(call);                                                \
  }
#include "gpu/combine_table.inc"
#undef PENSTOCK_COMBINE
#undef PENSTOCK_COMMA

}  // namespace penstock::gpu
