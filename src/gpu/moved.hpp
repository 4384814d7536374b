// The data of one step of a schedule, at the addresses of a GPU.
#pragma once

#include <bitset>

#include "gpu/combine.hpp"
#include "gpu/driver_types.hpp"

namespace penstock::gpu {

/// The data that a step moves: a copy from one place, or a reduction of several.
struct Moved {
  cuda::DevicePointer to = 0;
  std::uint64_t bytes = 0;
  bool combines = false;
  std::uint32_t operands = 0;
  cuda::DevicePointer from[max_operands];  ///< the first `operands` are valid
  std::bitset<max_operands> own;           ///< of a reduction: not in the pool

  /// Of a reduction: how many of its operands lie in the pool.
  std::uint32_t operands_in_pool() const {
    return operands - static_cast<std::uint32_t>(own.count());
  }
  bool is_nothing() const { return bytes == 0 || (!combines && to == from[0]); }
};

}  // namespace penstock::gpu
