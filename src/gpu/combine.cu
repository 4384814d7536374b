// Kernels of combine.hpp. A thread takes 16 bytes of each operand at once where all are aligned so:
// a read of the pool over the bus costs by the request.
#include "gpu/combine.hpp"

namespace penstock::gpu {

namespace {

constexpr unsigned wide_bytes = 16;

__device__ bool is_wide(const Combine& call) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(call.result);
  for (std::uint32_t k = 0; k < call.operands; ++k)
    bits |= reinterpret_cast<std::uintptr_t>(call.operand[k]);
  return bits % wide_bytes == 0;
}

/// 16 bytes of each operand. The loads of the pool are asked for as volatile: a chunk is written by
/// others while this GPU runs, and no older copy of it may be used.
template <class Format, coll::Operation operation>
__device__ void combine_wide(const Combine& call, std::size_t i, double factor) {
  using Word = typename Format::Word;
  constexpr unsigned count = wide_bytes / sizeof(Word);
  typename Format::Accumulated values[count];
  for (std::uint32_t k = 0; k < call.operands; ++k) {
    const uint4 bits = __ldcv(static_cast<const uint4*>(call.operand[k]) + i);
    Word words[count];
    memcpy(words, &bits, sizeof bits);
#pragma unroll
    for (unsigned e = 0; e < count; ++e) {
      const auto value = coll::scaled<Format, operation>(Format::decode(words[e]), factor);
      values[e] = k == 0 ? value : coll::combined<operation>(values[e], value);
    }
  }
  Word words[count];
#pragma unroll
  for (unsigned e = 0; e < count; ++e)
    words[e] = coll::result_of<Format, operation>(values[e], call.ranks);
  uint4 bits;
  memcpy(&bits, words, sizeof bits);
  static_cast<uint4*>(call.result)[i] = bits;
}

template <class Format, coll::Operation operation>
__device__ void combine_all(const Combine& call) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const double factor = factor_of<Format, operation>(call);
  constexpr std::size_t count = wide_bytes / sizeof(typename Format::Word);
  const std::size_t wide = is_wide(call) ? call.elements / count : 0;
  for (std::size_t i = thread; i < wide; i += stride)
    combine_wide<Format, operation>(call, i, factor);
  for (std::size_t i = wide * count + thread; i < call.elements; i += stride) {
    const auto word = combined_element<Format, operation>(call, i, factor);
    memcpy(static_cast<unsigned char*>(call.result) + i * sizeof word, &word, sizeof word);
  }
}

template <class Format>
struct CombineAll {
  const Combine& call;
  template <class Constant>
  __device__ void operator()(Constant) const {
    combine_all<Format, Constant::value>(call);
  }
};

}  // namespace

#define PENSTOCK_COMMA ,
#define PENSTOCK_COMBINE(type, ...)                                                          \
  extern "C" __global__ void penstock_combine_##type(const __grid_constant__ Combine call) { \
    with_operation<__VA_ARGS__>(call.operation, CombineAll<__VA_ARGS__>{call});              \
  }
#include "gpu/combine_table.inc"

}  // namespace penstock::gpu
