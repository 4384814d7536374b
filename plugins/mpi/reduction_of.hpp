// What a reduction of MPI is for the pool's collectives.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "abi.hpp"
#include "coll/arithmetic.hpp"
#include "datatypes.hpp"

namespace penstock::mpi {

/// Done by the MPI itself, MPI_Reduce_local, which knows every type and calls users' functions.
class MpiArithmetic final : public coll::Arithmetic {
 public:
  /// Nullopt: an element is too long.
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
  std::uint64_t elements_ = 0;  ///< of a piece
};

using ReductionOf = std::variant<std::monostate, coll::PredefinedArithmetic, MpiArithmetic>;

/// std::monostate where the MPI has to do the call: it does not know the operation for this type,
/// and will report that, or an element has more than 4 KB of data. The same on all ranks, since all
/// pass the same type.
ReductionOf reduction_of(Handle type, Handle op, const std::shared_ptr<const Layout>& layout,
                         std::uint32_t ranks);
/// For coll::Call::fingerprint: it must be the same on all ranks.
std::uint64_t fingerprint_of(const ReductionOf& reduction);

}  // namespace penstock::mpi
