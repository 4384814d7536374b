// Kernels of combine.hpp. A thread takes 16 bytes of an operand at once if all are aligned to that,
// and several such words before it uses the first: reads of the pool over the bus cost by the
// request, and take long.
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

/// Operations that one loop serves: it costs less to choose among them for each element than to
/// compile a loop for each. Reads of the pool take longer than either.
enum class Family { sums, product, extremes, bits };

/// How much a thread loads before it uses the first of it: `words` times 16 bytes of `operands`
/// ranks each. All of it waits in registers, and of each word the sums of its elements.
/// 8 loads in all; 4 of a type of one byte, whose words have 16 sums each; 2 in a fused launch,
/// whose block has few registers for a thread, and for operations that are rare.
template <class Format, Family family, class Call>
struct Loads {
  static constexpr bool is_rare = family == Family::product || family == Family::bits;
  static constexpr unsigned operands = 2;
  static constexpr unsigned words = !std::is_same_v<Call, Combine> || is_rare ? 1
                                    : sizeof(typename Format::Word) == 1      ? 2
                                                                              : 4;
};

/// schedule/element.hpp for the operations of a family.
template <class Format, Family family>
class Arithmetic {
 public:
  using Word = typename Format::Word;
  using Accumulated = typename Format::Accumulated;

  template <class Call>
  __device__ explicit Arithmetic(const Call& call) : operation_(call.operation) {
    if (family == Family::sums && operation_ == coll::Operation::premultiplied_sum)
      factor_ = factor_of<Format, coll::Operation::premultiplied_sum>(call);
  }

  __device__ Accumulated decoded(Word word) const {
    const Accumulated value = Format::decode(word);
    if constexpr (family == Family::sums)
      return coll::scaled<Format, coll::Operation::premultiplied_sum>(value, factor_);
    return value;
  }

  __device__ Accumulated combined(Accumulated a, Accumulated b) const {
    using O = coll::Operation;
    if constexpr (family == Family::sums) return coll::combined<O::sum>(a, b);
    if constexpr (family == Family::product) return coll::combined<O::product>(a, b);
    if constexpr (family == Family::extremes)
      return operation_ == O::minimum ? coll::combined<O::minimum>(a, b)
                                      : coll::combined<O::maximum>(a, b);
    if constexpr (family == Family::bits) return combined_bits(a, b);
  }

  __device__ Word encoded(Accumulated value, std::uint32_t ranks) const {
    using O = coll::Operation;
    if constexpr (family == Family::sums)
      if (operation_ == O::average) value = divided(value, ranks);
    if constexpr (family == Family::bits)
      if (is_logical()) return coll::result_of<Format, O::logical_or>(value, ranks);
    return coll::result_of<Format, O::sum>(value, ranks);
  }

 private:
  __device__ bool is_logical() const { return operation_ >= coll::Operation::logical_and; }

  __device__ Accumulated combined_bits(Accumulated a, Accumulated b) const {
    using O = coll::Operation;
    using Bits = std::conditional_t<std::is_integral_v<Accumulated>,
                                    typename coll::Wrapping<Accumulated>::type, unsigned>;
    const Bits x = is_logical() ? Bits{a != 0} : static_cast<Bits>(a);
    const Bits y = is_logical() ? Bits{b != 0} : static_cast<Bits>(b);
    const bool is_and = operation_ == O::bit_and || operation_ == O::logical_and;
    const bool is_or = operation_ == O::bit_or || operation_ == O::logical_or;
    return static_cast<Accumulated>(is_and ? x & y : is_or ? x | y : x ^ y);
  }

  /// A call: a division takes a hundred instructions.
  static __device__ __noinline__ Accumulated divided(Accumulated value, std::uint32_t ranks) {
    return coll::divided(value, ranks);
  }

  coll::Operation operation_;
  double factor_ = 1;
};

/// 16 bytes of each operand, at `i` and at `words` - 1 places behind, before `end`. Loads from the
/// pool are volatile: others write a chunk while this GPU runs, and no older copy of it may be
/// used.
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
          bits[o][w] = __ldcv(static_cast<const uint4*>(values.operand[k + o]) + i + w * stride);
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

template <class Arithmetic>
__device__ void combine_one(const Values& values, std::size_t i, const Arithmetic& arithmetic) {
  using Word = typename Arithmetic::Word;
  const auto value_of = [&](std::uint32_t rank) {
    Word word;
    memcpy(&word, static_cast<const unsigned char*>(values.operand[rank]) + i * sizeof word,
           sizeof word);
    return arithmetic.decoded(word);
  };
  auto value = value_of(0);
  for (std::uint32_t k = 1; k < values.operands; ++k)
    value = arithmetic.combined(value, value_of(k));
  const Word word = arithmetic.encoded(value, values.ranks);
  memcpy(static_cast<unsigned char*>(values.result) + i * sizeof word, &word, sizeof word);
}

/// A thread's part: the `first` 16 bytes, those `stride` further, and so on. `Call` is Combine or
/// FusedCall.
template <class Format, Family family, class Call>
__device__ void combine_family(const Call& call, const Values& values, std::size_t first,
                               std::size_t stride) {
  using Loads = Loads<Format, family, Call>;
  constexpr std::size_t count = wide_bytes / sizeof(typename Format::Word);
  const Arithmetic<Format, family> arithmetic(call);
  const std::size_t wide = is_wide(values) ? values.elements / count : 0;
  for (std::size_t i = first; i < wide; i += Loads::words * stride)
    combine_wide<Loads>(values, i, stride, wide, arithmetic);
  for (std::size_t i = wide * count + first; i < values.elements; i += stride)
    combine_one(values, i, arithmetic);
}

template <class Format, class Call>
__device__ void combine_all(const Call& call, const Values& values, std::size_t first,
                            std::size_t stride) {
  using O = coll::Operation;
  if (call.operation >= O::bit_and)
    return combine_family<Format, Family::bits>(call, values, first, stride);
  if constexpr (!std::is_same_v<Format, coll::Boolean>) {  // coll::of_booleans() leaves bits
    if (call.operation == O::product)
      return combine_family<Format, Family::product>(call, values, first, stride);
    if (call.operation == O::minimum || call.operation == O::maximum)
      return combine_family<Format, Family::extremes>(call, values, first, stride);
    combine_family<Format, Family::sums>(call, values, first, stride);
  }
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
