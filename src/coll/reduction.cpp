#include "coll/reduction.hpp"

#include <cmath>

#include "base/format.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "coll/reduction_kernels.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "coll/reduction_kernels.hpp"

namespace penstock::coll {

HWY_EXPORT(first);
HWY_EXPORT(add);
HWY_EXPORT(finish);
HWY_EXPORT(target);

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
  HWY_DYNAMIC_DISPATCH(first)(type_, operation_, accumulator, in, n, factor);
}

void Reduction::add(void* accumulator, const void* in, std::size_t n, double factor) const {
  HWY_DYNAMIC_DISPATCH(add)(type_, operation_, accumulator, in, n, factor);
}

void Reduction::finish(void* out, const void* accumulator, std::size_t n) const {
  HWY_DYNAMIC_DISPATCH(finish)(type_, operation_, out, accumulator, n, ranks_);
}

const char* reduction_target() {
  return HWY_DYNAMIC_DISPATCH(target)();
}

}  // namespace penstock::coll
