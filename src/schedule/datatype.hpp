// The types of elements that collectives move and reduce, and the operations on them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "schedule/operations.hpp"

namespace penstock::coll {

/// Bytes of one element.
std::uint32_t bytes_of(Datatype type);
/// "float16", "int8", ...
const char* name_of(Datatype type);
/// "sum", "bit_and", ...
const char* name_of(Operation operation);
/// Errors: invalid_argument, which lists the names.
Result<Datatype> parse_datatype(std::string_view name);

bool is_floating(Datatype type);
/// Whether the operation is defined for the type. Bit operations are not defined for floating-point
/// types, and averages and premultiplied sums are not defined for booleans.
bool supports(Operation operation, Datatype type);

}  // namespace penstock::coll
