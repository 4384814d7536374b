// Which reductions give the same bits in any order, so that parts of them may be reduced
// separately. Used by hosts, leaves and the spine. The numbers are those of coll::Datatype and
// coll::Operation, which lie in a layer above this one.
#pragma once

#include <cstdint>

namespace penstock::offload {

/// True for integers, which wrap, and for bits and booleans. False for reals and for averages,
/// which are rounded.
constexpr bool is_exact(std::uint8_t reduction, std::uint8_t datatype) {
  constexpr std::uint8_t last_integer = 7, boolean = 14, average = 4, premultiplied_sum = 5;
  return (datatype <= last_integer || datatype == boolean) && reduction != average &&
         reduction != premultiplied_sum;
}

}  // namespace penstock::offload
