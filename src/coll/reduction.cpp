#include "coll/reduction.hpp"

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
  return Reduction(type, operation, ranks);
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
