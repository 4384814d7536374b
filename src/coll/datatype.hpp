// What collectives move and reduce: types of elements and operations on them. Source: design page
// gpu.md, "Algorithms"; the types are those of NCCL and PyTorch, the operations those and MPI's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

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
  average,            ///< the sum, divided by the number of ranks; of integers towards zero
  premultiplied_sum,  ///< the sum of each value times a factor
  bit_and,
  bit_or,
  bit_xor,
  logical_and,  ///< 0 or 1
  logical_or,
  logical_xor,
};
inline constexpr std::uint32_t operation_count = 12;

/// Bytes of one element.
std::uint32_t bytes_of(Datatype type);
/// "float16", "int8", ...
const char* name_of(Datatype type);
/// "sum", "bit_and", ...
const char* name_of(Operation operation);
/// Error: invalid_argument, which lists the names.
Result<Datatype> parse_datatype(std::string_view name);

bool is_floating(Datatype type);
/// Whether the operation has a meaning for the type: bit operations have none for floating-point
/// types; averages and premultiplied sums have none for booleans.
bool supports(Operation operation, Datatype type);

}  // namespace penstock::coll
