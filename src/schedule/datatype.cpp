#include "schedule/datatype.hpp"

#include <array>

#include "base/format.hpp"

namespace penstock::coll {

namespace {

struct TypeFacts {
  const char* name;
  std::uint32_t bytes;
  bool floating;
};

constexpr std::array<TypeFacts, datatype_count> types = {{{"int8", 1, false},
                                                          {"uint8", 1, false},
                                                          {"int16", 2, false},
                                                          {"uint16", 2, false},
                                                          {"int32", 4, false},
                                                          {"uint32", 4, false},
                                                          {"int64", 8, false},
                                                          {"uint64", 8, false},
                                                          {"float16", 2, true},
                                                          {"bfloat16", 2, true},
                                                          {"float32", 4, true},
                                                          {"float64", 8, true},
                                                          {"float8_e4m3", 1, true},
                                                          {"float8_e5m2", 1, true},
                                                          {"boolean", 1, false}}};

constexpr std::array<const char*, operation_count> operations = {
    "sum",     "product", "minimum", "maximum",     "average",    "premultiplied_sum",
    "bit_and", "bit_or",  "bit_xor", "logical_and", "logical_or", "logical_xor"};

const TypeFacts& facts_of(Datatype type) {
  return types[static_cast<std::size_t>(type)];
}

}  // namespace

std::uint32_t bytes_of(Datatype type) {
  return facts_of(type).bytes;
}

const char* name_of(Datatype type) {
  return facts_of(type).name;
}

const char* name_of(Operation operation) {
  return operations[static_cast<std::size_t>(operation)];
}

Result<Datatype> parse_datatype(std::string_view name) {
  std::string all;
  for (std::uint32_t i = 0; i < datatype_count; ++i) {
    if (types[i].name == name) return static_cast<Datatype>(i);
    all += fmt::format("{}{}", i == 0 ? "" : ", ", types[i].name);
  }
  return fail(ErrorCode::invalid_argument, "'{}' is no type of elements; there are {}", name, all);
}

bool is_floating(Datatype type) {
  return facts_of(type).floating;
}

bool supports(Operation operation, Datatype type) {
  const bool bits = operation == Operation::bit_and || operation == Operation::bit_or ||
                    operation == Operation::bit_xor;
  const bool scales = operation == Operation::average || operation == Operation::premultiplied_sum;
  if (is_floating(type)) return !bits;
  return type != Datatype::boolean || !scales;
}

}  // namespace penstock::coll
