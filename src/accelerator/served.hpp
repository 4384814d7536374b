// A communicator that the switch serves. A switch alone serves all its ranks (served.cpp); a leaf
// serves those of its hosts and asks the spine, which serves the leaves (leaf.cpp, spine.cpp).
// Protocol: docs/protocols/switch.md. Source: design page papers/5-switch.md, 5.4.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accelerator/arrivals.hpp"
#include "accelerator/combining.hpp"
#include "offload/directory.hpp"
#include "offload/region.hpp"
#include "pool/pool.hpp"

namespace penstock::accelerator {

struct Counts {
  std::uint64_t chunks = 0;       ///< completed, each once
  std::uint64_t commands = 0;     ///< packets taken
  std::uint64_t completions = 0;  ///< packets given
  std::uint64_t failures = 0;     ///< chunks that ended with another status than ok
  Traffic traffic;
};

/// One thread. The pool is the switch's attachment as a member of the ranks' job.
class Served {
 public:
  virtual ~Served() = default;

  /// One look at those who may have sent something; goes on with what has come. True when something
  /// has happened.
  virtual bool poll() = 0;
  /// Now and then: whether a rank that is waited for has died, or is missing for too long.
  virtual void check_ranks() = 0;
  /// Whether nobody who knew of this communicator lives any more.
  bool is_deserted();
  virtual Counts counts() const;

  const offload::Region& region() const { return region_; }

 protected:
  Served(const pool::Pool& pool, const offload::Region& region, std::uint64_t missing_after_ns);

  /// The commands of a chunk, or who spoils it.
  Refusal refusal_of(const std::vector<offload::Command>& commands, std::uint64_t result) const;
  /// Computes it into `result`, and says so in a completion, which is not given yet.
  offload::Completion compute(const std::vector<offload::Command>& commands, std::uint64_t result);
  /// To each of the rings, for the chunk of this index. What was published before comes first.
  void answer(const std::vector<std::uint32_t>& rings, std::uint64_t index,
              const offload::Completion& completion);
  /// Nothing more is computed: the ranks go on without the switch.
  void fail(const std::vector<std::uint32_t>& rings, std::uint64_t index, Refusal refusal);
  /// Looks after those of whom chunk `index` is awaited.
  void check_ranks(Arrivals& arrivals, std::uint64_t index);
  /// `damage` of arrivals, if there is any: the communicator is given up.
  void give_up_if_damaged(const Arrivals& arrivals, std::uint64_t index);
  bool alive(std::uint32_t rank);
  const std::optional<offload::Member>& member(std::uint32_t rank);

  const pool::Pool& pool_;
  const offload::Region region_;
  const std::uint64_t missing_after_ns_;
  Combining combining_;
  std::vector<std::optional<offload::Member>> members_;  ///< as far as they are known
  std::vector<offload::Command> commands_;               ///< of the chunk that is computed
  bool failed_ = false;                                  ///< nothing more is computed
  Counts counts_;
};

/// Whether two ranks, or leaves, have made the same call.
bool same_call(const offload::Command& a, const offload::Command& b);

/// As the role of the switch has it. `missing_after_ns`: how long the first rank of a chunk waits
/// for the last; 0: for ever.
std::unique_ptr<Served> serve(const offload::Role& role, const pool::Pool& pool,
                              const offload::Region& region, std::uint64_t missing_after_ns);

// Of serve():
std::unique_ptr<Served> serve_alone(const pool::Pool& pool, const offload::Region& region,
                                    std::uint64_t missing_after_ns);
std::unique_ptr<Served> serve_as_leaf(std::uint32_t leaf, const pool::Pool& pool,
                                      const offload::Region& region,
                                      std::uint64_t missing_after_ns);
std::unique_ptr<Served> serve_as_spine(const pool::Pool& pool, const offload::Region& region);

}  // namespace penstock::accelerator
