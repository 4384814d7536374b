// A call with large counts, for an MPI that has only the plain form. Programs find the large form
// in this library.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "collective_arguments.hpp"

namespace penstock::mpi {

class Narrowed {
 public:
  /// Converts the arguments to those of the plain form. This object owns the converted arrays.
  /// False if a number does not fit an int.
  bool narrow(CollectiveCall call, std::span<Word> words);
  /// Keeps the arrays until the process ends. For a nonblocking call: nothing tells us when the MPI
  /// has read them.
  void keep();

 private:
  bool narrow_array(Word& word, std::size_t n);

  std::vector<std::vector<int>> arrays_;
};

/// Calls `plain` with the converted arguments, if they fit.
template <class Plain, class... Words>
int narrowed(CollectiveCall call, bool blocks, Plain plain, Words... arguments) {
  std::array words = {arguments...};
  Narrowed arrays;
  if (!arrays.narrow(call, words)) return constants().err_count;
  const int done = std::apply(plain, words);
  if (!blocks) arrays.keep();
  return done;
}

}  // namespace penstock::mpi
