// A communicator that the switch serves: the table of what has arrived, and the state machine of
// its chunks. Protocol: docs/protocols/switch.md. Source: design page papers/5-switch.md, 5.4.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accelerator/combining.hpp"
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
  /// `missing_after_ns`: how long the first rank of a chunk waits for the last; 0: for ever.
  Served(const pool::Pool& pool, const offload::Region& region, std::uint64_t missing_after_ns);

  /// One look at the ring of each rank that may have sent something; completes the next chunk if
  /// all have come. True when something has happened. A device access, and three for a chunk.
  bool poll();
  /// Now and then: whether a rank that is waited for has died, or is missing for too long.
  void check_ranks();
  /// Whether nobody who knew of this communicator lives any more.
  bool is_deserted();

  const offload::Region& region() const { return region_; }
  Counts counts() const;

 private:
  struct Arrived {
    std::vector<std::optional<offload::Command>> of;  ///< by rank
    std::uint32_t count = 0;
    std::uint64_t first_ns = 0;
  };
  bool look();
  bool take(std::uint32_t rank, const offload::Packet& packet);
  void malformed(std::uint32_t rank, const Error& error);
  std::optional<Refusal> mismatch_in(const std::vector<offload::Command>& commands) const;
  void complete();
  void fail(offload::Status status, std::uint32_t culprit);
  void answer(const offload::Completion& completion);
  Arrived& arrived(std::uint64_t index) { return arrived_[index % arrived_.size()]; }
  bool alive(std::uint32_t rank);

  const pool::Pool& pool_;
  const offload::Region region_;
  const std::uint64_t missing_after_ns_;
  Combining combining_;
  std::vector<Arrived> arrived_;        ///< by index, of the window
  std::vector<std::uint64_t> next_;     ///< by rank: the index of the packet that comes next
  std::vector<std::uint32_t> damaged_;  ///< by rank: looks at a packet that is not right
  std::vector<std::uint32_t> looked_;   ///< ranks whose rings are looked at
  std::vector<std::optional<offload::Member>> members_;  ///< as far as they are known
  std::vector<offload::Command> commands_;               ///< of the chunk that is computed
  std::uint64_t done_ = 0;                               ///< the index of the chunk that is next
  bool failed_ = false;                                  ///< nothing more is computed
  Counts counts_;
};

}  // namespace penstock::accelerator
