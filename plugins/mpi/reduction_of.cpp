#include "reduction_of.hpp"

#include <array>
#include <cstring>
#include <optional>

#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

using coll::Datatype;
using coll::Operation;

std::optional<Datatype> datatype_of(Handle type) {
  const Constants& mpi = constants();
  const std::pair<Handle, Datatype> table[] = {
      {mpi.int_type, Datatype::int32},
      {mpi.double_type, Datatype::float64},
      {mpi.float_type, Datatype::float32},
      {mpi.long_type, Datatype::int64},
      {mpi.signed_char, Datatype::int8},
      {mpi.unsigned_char, Datatype::uint8},
      {mpi.short_type, Datatype::int16},
      {mpi.unsigned_short, Datatype::uint16},
      {mpi.unsigned_type, Datatype::uint32},
      {mpi.unsigned_long, Datatype::uint64},
      {mpi.long_long, Datatype::int64},
      {mpi.unsigned_long_long, Datatype::uint64},
      {mpi.int8, Datatype::int8},
      {mpi.uint8, Datatype::uint8},
      {mpi.int16, Datatype::int16},
      {mpi.uint16, Datatype::uint16},
      {mpi.int32, Datatype::int32},
      {mpi.uint32, Datatype::uint32},
      {mpi.int64, Datatype::int64},
      {mpi.uint64, Datatype::uint64},
      {mpi.aint, Datatype::int64},
      {mpi.offset, Datatype::int64},
      {mpi.count, Datatype::int64},
  };
  for (const auto& [handle, datatype] : table) {
    if (handle == type) return datatype;
  }
  return std::nullopt;
}

std::optional<Operation> operation_of(Handle op) {
  const Constants& mpi = constants();
  const std::pair<Handle, Operation> table[] = {
      {mpi.sum, Operation::sum},          {mpi.max, Operation::maximum},
      {mpi.min, Operation::minimum},      {mpi.prod, Operation::product},
      {mpi.land, Operation::logical_and}, {mpi.band, Operation::bit_and},
      {mpi.lor, Operation::logical_or},   {mpi.bor, Operation::bit_or},
      {mpi.lxor, Operation::logical_xor}, {mpi.bxor, Operation::bit_xor},
  };
  for (const auto& [handle, operation] : table) {
    if (handle == op) return operation;
  }
  return std::nullopt;
}

bool is_logical(Operation operation) {
  return operation == Operation::logical_and || operation == Operation::logical_or ||
         operation == Operation::logical_xor;
}

}  // namespace

void UserArithmetic::first(std::byte* accumulator, const std::byte* in, std::size_t bytes) const {
  std::memcpy(accumulator, in, bytes);
}

void UserArithmetic::add(std::byte* accumulator, const std::byte* in, std::size_t bytes) const {
  // MPI's operation puts "left op right" into its right operand.
  alignas(64) std::array<std::byte, max_piece_bytes> right;
  std::memcpy(right.data(), in, bytes);
  pmpi().Reduce_local(accumulator, right.data(), static_cast<int>(bytes / element_bytes_), type_,
                      op_);
  std::memcpy(accumulator, right.data(), bytes);
}

void UserArithmetic::finish(std::byte* out, const std::byte* accumulator, std::size_t bytes) const {
  std::memcpy(out, accumulator, bytes);
}

ReductionOf reduction_of(Handle type, Handle op, const Layout& layout, std::uint32_t ranks) {
  if (op == constants().op_null || layout.size == 0) return {};
  if (is_predefined_op(op)) {
    const auto datatype = datatype_of(type);
    const auto operation = operation_of(op);
    if (!datatype || !operation) return {};
    if (is_logical(*operation) && coll::is_floating(*datatype)) return {};
    const auto reduction = coll::Reduction::make(*datatype, *operation, ranks);
    if (!reduction) return {};
    return coll::PredefinedArithmetic(*reduction);
  }
  if (!layout.contiguous || layout.size > coll::Arithmetic::max_piece_bytes) return {};
  return UserArithmetic(type, op, layout.size);
}

}  // namespace penstock::mpi
