// Kernels of combine.hpp. A thread takes 16 bytes of each operand at once if all are aligned to
// that: reads of the pool over the bus cost by the request.
#include "gpu/combine.hpp"

namespace penstock::gpu {

namespace {

constexpr unsigned wide_bytes = 16;

__device__ bool is_wide(const Values& values) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(values.result);
  for (std::uint32_t k = 0; k < values.operands; ++k)
    bits |= reinterpret_cast<std::uintptr_t>(values.operand[k]);
  return bits % wide_bytes == 0;
}

/// 16 bytes of each operand. Loads from the pool are volatile: others write a chunk while this GPU
/// runs, and no older copy of it may be used.
template <class Format, coll::Operation operation>
__device__ void combine_wide(const Values& values, std::size_t i, double factor) {
  using Word = typename Format::Word;
  constexpr unsigned count = wide_bytes / sizeof(Word);
  typename Format::Accumulated sums[count];
  for (std::uint32_t k = 0; k < values.operands; ++k) {
    const uint4 bits = __ldcv(static_cast<const uint4*>(values.operand[k]) + i);
    Word words[count];
    memcpy(words, &bits, sizeof bits);
#pragma unroll
    for (unsigned e = 0; e < count; ++e) {
      const auto value = coll::scaled<Format, operation>(Format::decode(words[e]), factor);
      sums[e] = k == 0 ? value : coll::combined<operation>(sums[e], value);
    }
  }
  Word words[count];
#pragma unroll
  for (unsigned e = 0; e < count; ++e)
    words[e] = coll::result_of<Format, operation>(sums[e], values.ranks);
  uint4 bits;
  memcpy(&bits, words, sizeof bits);
  static_cast<uint4*>(values.result)[i] = bits;
}

/// A thread's part: the `first` 16 bytes, those `stride` further, and so on.
template <class Format, coll::Operation operation>
__device__ void combine_all(const Values& values, double factor, std::size_t first,
                            std::size_t stride) {
  constexpr std::size_t count = wide_bytes / sizeof(typename Format::Word);
  const std::size_t wide = is_wide(values) ? values.elements / count : 0;
  for (std::size_t i = first; i < wide; i += stride)
    combine_wide<Format, operation>(values, i, factor);
  for (std::size_t i = wide * count + first; i < values.elements; i += stride) {
    const auto word = combined_element<Format, operation>(values, i, factor);
    memcpy(static_cast<unsigned char*>(values.result) + i * sizeof word, &word, sizeof word);
  }
}

/// `Call` is Combine or FusedCall.
template <class Format, class Call>
struct CombineAll {
  const Call& call;
  const Values& values;
  std::size_t first, stride;
  template <class Constant>
  __device__ void operator()(Constant) const {
    combine_all<Format, Constant::value>(values, factor_of<Format, Constant::value>(call), first,
                                         stride);
  }
};

template <class Format>
__device__ void combine_by_all_blocks(const Combine& call) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  with_operation<Format>(call.operation,
                         CombineAll<Format, Combine>{call, call.values(), thread, stride});
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
