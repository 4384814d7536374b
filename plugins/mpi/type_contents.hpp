// Reads the description of a type by MPI_Type_get_envelope and MPI_Type_get_contents, in order.
#pragma once

#include <cstddef>
#include <vector>

#include "abi.hpp"
#include "base/status.hpp"

namespace penstock::mpi {

struct Envelope {
  Count integers = 0;
  Count addresses = 0;
  Count large_counts = 0;
  Count types = 0;
  int combiner = 0;
};
Result<Envelope> envelope_of(Handle type);

/// The constructor arguments of a type, read in order. For types made by the _c functions the MPI
/// returns counts and addresses in one array, for others counts among the integers; this class
/// hides the difference. Its destructor frees the handles of inner types that the MPI returned.
class TypeContents {
 public:
  static Result<TypeContents> of(Handle type, const Envelope& envelope);
  TypeContents(TypeContents&& other) noexcept = default;
  TypeContents(const TypeContents&) = delete;
  TypeContents& operator=(const TypeContents&) = delete;
  TypeContents& operator=(TypeContents&&) = delete;
  ~TypeContents();

  int number();     ///< an int in every form: dimensions, order, distributions
  Count count();    ///< an int, or an MPI_Count in the _c form
  Count address();  ///< an MPI_Aint, or an MPI_Count in the _c form
  std::vector<Count> counts(Count n);
  std::vector<Count> addresses(Count n);
  /// The n-th inner type.
  Handle type(std::size_t n) const;

 private:
  TypeContents() = default;

  std::vector<int> integers_;
  std::vector<Aint> addresses_;
  std::vector<Count> large_;
  std::vector<Handle> types_;
  bool is_large_ = false;
  bool integer_addresses_ = false;  // of the calls that MPI 3.0 removed
  std::size_t next_integer_ = 0;
  std::size_t next_address_ = 0;
  std::size_t next_large_ = 0;
};

}  // namespace penstock::mpi
