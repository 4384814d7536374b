// The facts of a call that all ranks must agree on, and a fingerprint of them and of all earlier
// calls. The first word that a rank writes in a call carries it (layout.hpp), and a reader waits
// for the word with its own fingerprint. So a call that differs is found without another access: at
// once or, if the ranks need nothing from each other, in the next call in which they do. See
// docs/protocols/collectives.md, "Calls that differ".
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "schedule/datatype.hpp"
#include "schedule/problem.hpp"

namespace penstock::coll {

struct CallFacts {
  Collective collective = Collective::barrier;
  std::uint32_t root = 0;
  /// 1 + the elements (in a reduction) or bytes (in a movement) of a block; a hash if the blocks
  /// differ; 0 if some rank does not know them.
  std::uint64_t size = 0;
  std::uint64_t reduction = 0;  ///< reduction_word(); 0: none
};
/// All facts except the reduction.
CallFacts facts_of(const Problem& problem);

/// Encodes the type and operation of a reduction. `besides`: anything else that must be the same on
/// all ranks.
std::uint64_t reduction_word(Datatype type, Operation operation, std::uint64_t besides = 0);
/// Encodes a type and an operation that coll does not know.
std::uint64_t reduction_word(std::uint64_t besides);

class Fingerprints {
 public:
  /// Begins the next call.
  void begin(const CallFacts& facts, std::uint64_t reduction) {
    Past& past = past_[begun_++ % past_.size()];
    past = {.before = chain_, .facts = facts};
    past.facts.reduction = reduction;
    chain_ = chained(chain_, past.facts);
  }
  /// Fingerprint of the last call begun.
  std::uint64_t current() const;

  /// Describes how another rank's call, or one of its earlier calls, differs from this rank's:
  /// "calls barrier, and this rank ...". `theirs`: its fingerprint. Tries every fact that may
  /// differ.
  std::string difference(std::uint64_t theirs, std::uint32_t ranks) const;

 private:
  struct Past {
    std::uint64_t before = 0;  ///< the chain before the call
    CallFacts facts;
  };
  static std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t product = (a ^ b) * 0x9e3779b97f4a7c15ull;
    return product ^ product >> 32;
  }
  static std::uint64_t chained(std::uint64_t chain, const CallFacts& facts) {
    const std::uint64_t kind =
        facts.size ^ (std::uint64_t{facts.root} << 4 | static_cast<unsigned>(facts.collective))
                         << 40;
    return mixed(mixed(chain, kind), facts.reduction);
  }
  const Past& past(std::uint64_t back) const { return past_[(begun_ - 1 - back) % past_.size()]; }
  std::uint64_t end_of_chain(std::uint64_t back, const CallFacts& tried) const;

  std::array<Past, 8> past_;
  std::uint64_t begun_ = 0;
  std::uint64_t chain_ = 1;
};

}  // namespace penstock::coll
