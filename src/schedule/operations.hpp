// Names of the element types and of the operations on them, for hosts and GPUs. The types are
// those of NCCL and PyTorch, the operations theirs and MPI's.
#pragma once

#include <cstdint>

namespace penstock::coll {

enum class Datatype : std::uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,      ///< IEEE binary16
  bfloat16,     ///< the upper half of a float32
  float32,      ///< IEEE binary32
  float64,      ///< IEEE binary64
  float8_e4m3,  ///< OCP E4M3: no infinity, 448 at most, NaN is 0x7f and 0xff
  float8_e5m2,  ///< OCP E5M2: a float16 without its lower byte
  boolean,      ///< a byte: 0 or not 0; results are 0 or 1
};
inline constexpr std::uint32_t datatype_count = 15;

enum class Operation : std::uint8_t {
  sum,
  product,
  minimum,
  maximum,
  average,            ///< the sum, divided by the number of ranks; integers round towards zero
  premultiplied_sum,  ///< the sum of each value times a factor
  bit_and,
  bit_or,
  bit_xor,
  logical_and,  ///< 0 or 1
  logical_or,
  logical_xor,
};
inline constexpr std::uint32_t operation_count = 12;

/// For booleans, sum and maximum mean "or"; product and minimum mean "and".
constexpr Operation of_booleans(Operation operation) {
  if (operation == Operation::sum || operation == Operation::maximum) return Operation::bit_or;
  if (operation == Operation::product || operation == Operation::minimum) return Operation::bit_and;
  return operation;
}

}  // namespace penstock::coll
