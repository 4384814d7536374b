// Translates a reduction of MPI for the pool's collectives.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "abi.hpp"
#include "datatypes.hpp"
#include "schedule/arithmetic.hpp"

namespace penstock::mpi {

/// Arithmetic by MPI_Reduce_local, which knows every type and calls the user's functions.
class MpiArithmetic final : public coll::Arithmetic {
 public:
  /// nullopt if an element is too long.
  static std::optional<MpiArithmetic> make(Handle type, Handle op,
                                           std::shared_ptr<const Layout> layout);
  std::size_t piece_bytes() const override { return elements_ * layout_->size; }
  void first(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override;
  void add(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override;
  void finish(std::byte* out, const std::byte* accumulator, std::size_t bytes) const override;
  std::uint64_t fingerprint() const;

 private:
  MpiArithmetic(Handle type, Handle op, std::shared_ptr<const Layout> layout)
      : type_(type), op_(op), layout_(std::move(layout)) {}
  void add_with_holes(std::byte* accumulator, const std::byte* in, std::uint64_t elements) const;

  Handle type_, op_;
  std::shared_ptr<const Layout> layout_;
  std::uint64_t elements_ = 0;  ///< in a piece
};

using ReductionOf = std::variant<std::monostate, coll::PredefinedArithmetic, MpiArithmetic>;

/// Returns std::monostate if the MPI has to do the call: the operation is not defined for the type,
/// which the MPI will report, or an element has more than 4 KB of data. The same on all ranks,
/// since all pass the same type.
ReductionOf reduction_of(Handle type, Handle op, const std::shared_ptr<const Layout>& layout,
                         std::uint32_t ranks);
/// The value for coll::Call::fingerprint, which must be the same on all ranks.
std::uint64_t fingerprint_of(const ReductionOf& reduction);

}  // namespace penstock::mpi
