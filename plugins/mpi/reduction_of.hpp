// What a reduction of MPI is for the pool's collectives.
#pragma once

#include <memory>
#include <variant>

#include "abi.hpp"
#include "coll/arithmetic.hpp"
#include "datatypes.hpp"

namespace penstock::mpi {

/// An operation of a user, done by the MPI itself: MPI_Reduce_local.
class UserArithmetic final : public coll::Arithmetic {
 public:
  UserArithmetic(Handle type, Handle op, std::uint64_t element_bytes)
      : type_(type), op_(op), element_bytes_(element_bytes) {}
  std::size_t piece_bytes() const override {
    return max_piece_bytes / element_bytes_ * element_bytes_;
  }
  void first(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override;
  void add(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override;
  void finish(std::byte* out, const std::byte* accumulator, std::size_t bytes) const override;

 private:
  Handle type_, op_;
  std::uint64_t element_bytes_;
};

using ReductionOf = std::variant<std::monostate, coll::PredefinedArithmetic, UserArithmetic>;

/// Nothing where the MPI has to do it: an operation of its own on other types than integers and
/// reals of C, or a type with holes. The same on all ranks, as these pass the same type.
ReductionOf reduction_of(Handle type, Handle op, const Layout& layout, std::uint32_t ranks);

}  // namespace penstock::mpi
