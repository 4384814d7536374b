#include "reduction_of.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <vector>

#include "beyond_standard.hpp"
#include "coll/fingerprint.hpp"
#include "pmpi.hpp"
#include "scratch.hpp"

namespace penstock::mpi {

namespace {

using coll::Datatype;
using coll::Operation;

/// The pool's type for an MPI type, if the pool can reduce it: integers and reals of C and Fortran.
std::optional<Datatype> datatype_of(Handle type, std::uint64_t size) {
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
      {mpi.integer, size == 8 ? Datatype::int64 : Datatype::int32},
      {mpi.integer4, Datatype::int32},
      {mpi.integer8, Datatype::int64},
      {mpi.real, size == 8 ? Datatype::float64 : Datatype::float32},
      {mpi.real4, Datatype::float32},
      {mpi.double_precision, Datatype::float64},
      {mpi.real8, Datatype::float64},
  };
  for (const auto& [handle, datatype] : table) {
    // Compiler options may make Fortran's types longer.
    if (handle == type && size == coll::bytes_of(datatype)) return datatype;
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

bool is_one_of(Handle handle, std::initializer_list<Handle> handles) {
  return std::find(handles.begin(), handles.end(), handle) != handles.end();
}

/// True if MPI defines the operation for a type that the pool does not reduce (MPI 4.1, table 6.2).
bool is_defined(Handle type, Handle op) {
  const Constants& mpi = constants();
  if (is_one_of(op, {mpi.sum, mpi.prod}))
    return is_one_of(type, {mpi.long_double, mpi.c_float_complex, mpi.c_double_complex,
                            mpi.c_long_double_complex, mpi.complex, mpi.double_complex});
  if (is_one_of(op, {mpi.max, mpi.min})) return type == mpi.long_double;
  if (is_one_of(op, {mpi.land, mpi.lor, mpi.lxor}))
    return is_one_of(type, {mpi.c_bool, mpi.logical});
  if (is_one_of(op, {mpi.band, mpi.bor, mpi.bxor})) return type == mpi.byte;
  if (is_one_of(op, {mpi.maxloc, mpi.minloc}))
    return is_one_of(
        type, {mpi.float_int, mpi.double_int, mpi.long_int, mpi.two_int, mpi.short_int,
               mpi.long_double_int, mpi.two_real, mpi.two_double_precision, mpi.two_integer});
  return false;
}

/// A number for a predefined type that is the same on all ranks, unlike its handle; 0 for other
/// types.
std::uint64_t number_of(Handle type) {
  const Constants& mpi = constants();
  const Handle types[] = {
#define PENSTOCK_INT(name, mpi_name, mpich, open_mpi, standard)
#define PENSTOCK_HANDLE(name, mpi_name, mpich, open_mpi, standard) mpi.name,
#define PENSTOCK_POINTER(name, mpi_name, mpich, open_mpi, standard)
#include "abi_table.inc"
#undef PENSTOCK_INT
#undef PENSTOCK_HANDLE
#undef PENSTOCK_POINTER
  };
  const auto* const found = std::find(std::begin(types), std::end(types), type);
  return found == std::end(types) ? 0 : static_cast<std::uint64_t>(found - types) + 1;
}

std::uint64_t number_of_op(Handle op) {
  const auto ops = predefined_ops();
  const auto found =
      std::find_if(ops.begin(), ops.end(), [op](const NamedOp& named) { return named.op == op; });
  return found == ops.end() ? 0 : static_cast<std::uint64_t>(found - ops.begin()) + 1;
}

bool is_logical(Handle op) {
  const Constants& mpi = constants();
  return is_one_of(op, {mpi.land, mpi.lor, mpi.lxor});
}

}  // namespace

std::optional<MpiArithmetic> MpiArithmetic::make(Handle type, Handle op,
                                                 std::shared_ptr<const Layout> layout) {
  constexpr std::int64_t longest_piece = 1 << 16;
  const std::uint64_t most = max_piece_bytes / layout->size;
  if (most == 0) return std::nullopt;
  MpiArithmetic made(type, op, std::move(layout));
  const Layout& elements = *made.layout_;
  for (std::uint64_t n = most; n > 0; n /= 2) {
    const AccessRanges reach = reach_of(elements, n, 0);
    made.elements_ = n;
    if (elements.contiguous || reach.end - reach.begin <= longest_piece) return made;
  }
  return std::nullopt;
}

/// For the user's types and operations this covers only the element size: each rank has its own
/// handles.
std::uint64_t MpiArithmetic::fingerprint() const {
  return coll::reduction_word(layout_->size << 16 | number_of(type_) << 8 | number_of_op(op_));
}

void MpiArithmetic::first(std::byte* accumulator, const std::byte* in, std::size_t bytes) const {
  std::memcpy(accumulator, in, bytes);
}

void MpiArithmetic::add(std::byte* accumulator, const std::byte* in, std::size_t bytes) const {
  const std::uint64_t elements = bytes / layout_->size;
  if (!layout_->contiguous) return add_with_holes(accumulator, in, elements);
  // An MPI operation writes "left op right" into its right operand.
  alignas(64) std::array<std::byte, max_piece_bytes> right;
  std::memcpy(right.data(), in, bytes);
  pmpi().Reduce_local(accumulator, right.data(), static_cast<int>(elements), type_, op_);
  std::memcpy(accumulator, right.data(), bytes);
}

void MpiArithmetic::add_with_holes(std::byte* accumulator, const std::byte* in,
                                   std::uint64_t elements) const {
  thread_local std::vector<std::byte> left_here, right_here;
  const AccessRanges reach = reach_of(*layout_, elements, 0);
  const auto bytes = static_cast<std::uint64_t>(reach.end - reach.begin);
  std::byte* const left = room(left_here, bytes) - reach.begin;
  std::byte* const right = room(right_here, bytes) - reach.begin;
  scatter(*layout_, accumulator, left, elements);
  scatter(*layout_, in, right, elements);
  pmpi().Reduce_local(left, right, static_cast<int>(elements), type_, op_);
  gather(*layout_, right, elements, accumulator);
}

void MpiArithmetic::finish(std::byte* out, const std::byte* accumulator, std::size_t bytes) const {
  std::memcpy(out, accumulator, bytes);
}

ReductionOf reduction_of(Handle type, Handle op, const std::shared_ptr<const Layout>& layout,
                         std::uint32_t ranks) {
  if (op == constants().op_null || layout->size == 0) return {};
  if (is_predefined_op(op)) {
    auto datatype = datatype_of(type, layout->size);
    const auto operation = operation_of(op);
    // MPI defines logical and bitwise operations for integers only.
    const bool defined = datatype && operation && coll::supports(*operation, *datatype) &&
                         !(is_logical(op) && coll::is_floating(*datatype));
    if (!defined && !is_defined(type, op)) {
      datatype.reset();
      if (layout->basic != type) return {};
      const Meaning meaning = meaning_of(type, op, operation, *layout);
      if (meaning == Meaning::refused) return {};
      if (meaning == Meaning::signed_bytes) datatype = Datatype::int8;
      if (meaning == Meaning::unsigned_bytes) datatype = Datatype::uint8;
    }
    if (datatype && operation) {
      const auto reduction = coll::Reduction::make(*datatype, *operation, ranks);
      if (!reduction) return {};
      return coll::PredefinedArithmetic(*reduction);
    }
  }
  auto made = MpiArithmetic::make(type, op, layout);
  if (!made) return {};
  return *std::move(made);
}

std::uint64_t fingerprint_of(const ReductionOf& reduction) {
  if (const auto* predefined = std::get_if<coll::PredefinedArithmetic>(&reduction))
    return coll::reduction_word(predefined->predefined()->type(),
                                predefined->predefined()->operation());
  if (const auto* by_mpi = std::get_if<MpiArithmetic>(&reduction)) return by_mpi->fingerprint();
  return 0;
}

}  // namespace penstock::mpi
