// A call with large counts, for an MPI that has the plain form only. Programs find the large form
// because this library has it.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "collective_arguments.hpp"

namespace penstock::mpi {

class Narrowed {
 public:
  /// The arguments become those of the plain form; arrays are this object's. False: a number does
  /// not fit an int.
  bool narrow(CollectiveCall call, std::span<Word> words);
  /// For a call that is not over when it returns: nobody tells when the MPI has read the arrays, so
  /// they stay until the process ends.
  void keep();

 private:
  bool narrow_array(Word& word, std::size_t n);

  std::vector<std::vector<int>> arrays_;
};

/// `plain` gets the arguments, if they fit.
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
