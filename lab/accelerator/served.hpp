// A communicator that the switch serves. A switch alone serves all its ranks (served.cpp); a leaf
// serves those of its hosts and asks the spine, which serves the leaves (leaf.cpp, spine.cpp).
// Protocol: docs/protocols/switch.md. Source: ETRI/OSU slides.
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
  std::uint64_t commands = 0;     ///< packets received
  std::uint64_t completions = 0;  ///< packets sent
  std::uint64_t failures = 0;     ///< chunks that ended with another status than ok
  Traffic traffic;
};

/// One communicator, used by one thread. The pool is the switch's attachment as a member of the
/// ranks' job.
class Served {
 public:
  virtual ~Served() = default;

  /// Looks once at all possible senders and processes what has arrived. Returns true if anything
  /// has.
  virtual bool poll() = 0;
  /// Called now and then: checks whether an awaited rank has died, or has been missing for too
  /// long.
  virtual void check_ranks() = 0;
  /// Whether all processes that knew of this communicator are dead.
  bool is_deserted();
  virtual Counts counts() const;

  const offload::Region& region() const { return region_; }

 protected:
  Served(const pool::Pool& pool, const offload::Region& region, std::uint64_t missing_after_ns);

  /// Why the commands of a chunk cannot be carried out, with the culprit; status ok if they can.
  Refusal refusal_of(const std::vector<offload::Command>& commands, std::uint64_t result) const;
  /// Computes the chunk into `result`. Returns the completion, which is not sent yet.
  offload::Completion compute(const std::vector<offload::Command>& commands, std::uint64_t result);
  /// Sends it to each of the rings, for the chunk of this index, after all earlier publishes.
  void answer(const std::vector<std::uint32_t>& rings, std::uint64_t index,
              const offload::Completion& completion);
  /// Stops computing: the ranks go on without the switch.
  void fail(const std::vector<std::uint32_t>& rings, std::uint64_t index, Refusal refusal);
  /// Checks the ranks that chunk `index` waits for.
  void check_ranks(Arrivals& arrivals, std::uint64_t index);
  /// If the arrivals have damage, gives the communicator up.
  void give_up_if_damaged(const Arrivals& arrivals, std::uint64_t index);
  bool alive(std::uint32_t rank);
  const std::optional<offload::Member>& member(std::uint32_t rank);

  const pool::Pool& pool_;
  const offload::Region region_;
  const std::uint64_t missing_after_ns_;
  Combining combining_;
  std::vector<std::optional<offload::Member>> members_;  ///< nullopt: not yet known
  std::vector<offload::Command> commands_;               ///< of the present chunk
  bool failed_ = false;                                  ///< no more chunks are computed
  Counts counts_;
};

/// Whether two ranks, or leaves, have made the same call.
bool same_call(const offload::Command& a, const offload::Command& b);

/// Makes the kind that the switch's role asks for. `missing_after_ns`: how long the first rank of a
/// chunk waits for the last; 0: for ever.
std::unique_ptr<Served> serve(const offload::Role& role, const pool::Pool& pool,
                              const offload::Region& region, std::uint64_t missing_after_ns);

// The parts of serve():
std::unique_ptr<Served> serve_alone(const pool::Pool& pool, const offload::Region& region,
                                    std::uint64_t missing_after_ns);
std::unique_ptr<Served> serve_as_leaf(std::uint32_t leaf, const pool::Pool& pool,
                                      const offload::Region& region,
                                      std::uint64_t missing_after_ns);
std::unique_ptr<Served> serve_as_spine(const pool::Pool& pool, const offload::Region& region);

}  // namespace penstock::accelerator
