// Which reductions give the same bits in any order, so that parts of them may be done apart. Known
// to hosts, leaves and spine alike: numbers of coll::Datatype and coll::Operation, below which this
// stands.
#pragma once

#include <cstdint>

namespace penstock::offload {

/// Integers wrap, bits and booleans are sets. Not of reals, nor of averages, which are rounded.
constexpr bool is_exact(std::uint8_t reduction, std::uint8_t datatype) {
  constexpr std::uint8_t last_integer = 7, boolean = 14, average = 4, premultiplied_sum = 5;
  return (datatype <= last_integer || datatype == boolean) && reduction != average &&
         reduction != premultiplied_sum;
}

}  // namespace penstock::offload
