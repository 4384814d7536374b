// What collectives move and reduce: facts of the types of elements and of the operations on them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "coll/operations.hpp"

namespace penstock::coll {

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
