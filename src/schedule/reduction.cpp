#include "schedule/reduction.hpp"

#include <cmath>

#include "base/format.hpp"

#define HWY_DISABLED_TARGETS (HWY_AVX3_DL | HWY_SSSE3 | HWY_SSE4)  // choose() does not use these
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "schedule/reduction_kernels.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "schedule/reduction_kernels.hpp"

namespace penstock::coll {

namespace {

/// The kernels for one instruction set.
struct Kernels {
  decltype(&HWY_STATIC_DISPATCH(first)) first;
  decltype(&HWY_STATIC_DISPATCH(add)) add;
  decltype(&HWY_STATIC_DISPATCH(finish)) finish;
  decltype(&HWY_STATIC_DISPATCH(pair)) pair;
  const char* name;
};

#if HWY_TARGETS & (HWY_AVX2 | HWY_AVX3)
/// Whether the CPU has level 3 or 4 of x86-64. Clang 14 has no names for levels; CPUs with these
/// features have the others too.
bool has_level(int level) {
#ifdef __clang__
  const bool three = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                     __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool four = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
#else
  const bool three = __builtin_cpu_supports("x86-64-v3");
  const bool four = __builtin_cpu_supports("x86-64-v4");
#endif
  return three && (level == 3 || four) && __builtin_cpu_supports("pclmul") &&
         __builtin_cpu_supports("aes");
}
#endif

/// The best kernels for this CPU. Not chosen by Highway's library, because a product that is loaded
/// into other programs would have to bring it along.
Kernels choose() {
#if HWY_TARGETS & HWY_AVX3
  if (has_level(4))
    return {N_AVX3::first, N_AVX3::add, N_AVX3::finish, N_AVX3::pair, N_AVX3::target()};
#endif
#if HWY_TARGETS & HWY_AVX2
  if (has_level(3))
    return {N_AVX2::first, N_AVX2::add, N_AVX2::finish, N_AVX2::pair, N_AVX2::target()};
#endif
  return {HWY_STATIC_DISPATCH(first), HWY_STATIC_DISPATCH(add), HWY_STATIC_DISPATCH(finish),
          HWY_STATIC_DISPATCH(pair), HWY_STATIC_DISPATCH(target)()};
}

const Kernels& kernels() {
  static const Kernels chosen = choose();
  return chosen;
}

}  // namespace

Result<Reduction> Reduction::make(Datatype type, Operation operation, std::uint32_t ranks) {
  if (!supports(operation, type))
    return fail(ErrorCode::invalid_argument, "{} of {} has no meaning; {}", name_of(operation),
                name_of(type),
                is_floating(type) ? "bit operations need an integer type"
                                  : "booleans have sum, product, minimum, maximum and the bit and "
                                    "logical operations");
  if (ranks == 0) return fail(ErrorCode::invalid_argument, "a reduction of 0 ranks");
  return Reduction(type, operation, ranks);
}

Result<void> Reduction::check_factor(double factor) const {
  if (is_floating(type_)) return {};
  const int bits = static_cast<int>(8 * bytes_of(type_));
  const bool is_signed = type_ == Datatype::int8 || type_ == Datatype::int16 ||
                         type_ == Datatype::int32 || type_ == Datatype::int64;
  const double end = std::ldexp(1.0, is_signed ? bits - 1 : bits), begin = is_signed ? -end : 0;
  if (factor >= begin && factor < end && factor == std::trunc(factor)) return {};
  return fail(ErrorCode::invalid_argument, "the factor {} is no value of {}", factor,
              name_of(type_));
}

void Reduction::first(void* accumulator, const void* in, std::size_t n, double factor) const {
  kernels().first(type_, operation_, accumulator, in, n, factor);
}

void Reduction::add(void* accumulator, const void* in, std::size_t n, double factor) const {
  kernels().add(type_, operation_, accumulator, in, n, factor);
}

void Reduction::finish(void* out, const void* accumulator, std::size_t n) const {
  kernels().finish(type_, operation_, out, accumulator, n, ranks_);
}

void Reduction::pair(void* out, const void* left, const void* right, std::size_t n) const {
  kernels().pair(type_, operation_, out, left, right, n, ranks_);
}

const char* reduction_target() {
  return kernels().name;
}

}  // namespace penstock::coll
