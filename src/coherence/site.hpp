// The place in the source that calls an operation on the pool. Empty in the product. A build for
// proofs (PENSTOCK_PROOF) knows the place, so that the flush, fence or publish of one place can be
// left out, to see that a test notices (docs/proof.md, "Mutants").
#pragma once

#include <cstdint>

namespace penstock::coherence {

/// The effect of leaving out one place.
enum class Weakening : std::uint8_t {
  publish,      ///< the store stays in the cache, dirty
  write_back,   ///< not done
  store_fence,  ///< not done
  full_fence,   ///< is only `store_fence`
  invalidate,   ///< not done
  load_fence,   ///< not done
  wait,         ///< a stream does not wait (coll/direct_program.hpp)
};

#ifdef PENSTOCK_PROOF

struct Site {
  const char* file;
  unsigned line;
  /// The place of the caller of a function that has this as its default argument.
  static constexpr Site here(const char* file = __builtin_FILE(),
                             unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Notes that the place was reached; returns whether it is the one to be weakened.
bool weakened(Weakening what, Site site);

#else

struct Site {
  static constexpr Site here() { return {}; }
};
constexpr bool weakened(Weakening, Site) {
  return false;
}

#endif

}  // namespace penstock::coherence
