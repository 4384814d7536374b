// The ranks that requests wait for. The transport reports the end of a peer whose channel or
// address it knows; this also notices that of a rank which nobody has heard of yet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.hpp"
#include "messages/queues.hpp"
#include "pool/pool.hpp"

namespace penstock::messages {

class AwaitedRanks {
 public:
  AwaitedRanks(pool::Pool& pool, std::uint32_t self, std::uint32_t ranks)
      : pool_(pool), self_(self), ranks_(ranks), others_(ranks - 1) {}

  /// `token`: the attachment of the rank's process.
  void expect(std::uint32_t rank, std::uint64_t token) { ranks_[rank].token = token; }
  /// A request begins to wait for a rank, or any (any_source); end() ends that.
  void begin(std::uint32_t rank) {
    ++total_;
    ++of(rank);
  }
  void end(std::uint32_t rank) {
    --total_;
    --of(rank);
  }
  bool any() const { return total_ != 0; }

  std::uint64_t token(std::uint32_t rank) const { return ranks_[rank].token; }
  /// `how`: what requests that need the rank report from now on. Only the first report counts.
  void set_ended(std::uint32_t rank, const Error& how) {
    if (ranks_[rank].end != nullptr) return;
    ranks_[rank].end = std::make_unique<const Error>(how);
    if (rank != self_) --others_;
  }
  /// How the rank ended; null: it has not, or it is this rank.
  const Error* end_of(std::uint32_t rank) const {
    return rank == self_ ? nullptr : ranks_[rank].end.get();
  }
  /// No other rank can send any more, and this one was not alone from the start.
  bool are_all_gone() const { return others_ == 0 && ranks_.size() > 1; }

  /// Call it while requests wait, after some calls of progress(). Calls gone(rank) for the awaited
  /// ranks that have ended for so long that a message of theirs would have been seen.
  template <class Gone>
  void look(std::uint64_t now_ns, Gone&& gone) {
    if (now_ns < next_look_ns_) return;
    next_look_ns_ = now_ns + between_looks_ns;
    bool any_may_be_gone = from_any_ != 0;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      Rank& one = ranks_[rank];
      if (rank == self_ || one.end != nullptr || (one.requests == 0 && !any_may_be_gone)) continue;
      if (one.token == 0 || pool_.alive(one.token)) {
        any_may_be_gone = false;
        one.looks_gone = 0;
        continue;
      }
      if (++one.looks_gone >= looks_until_gone) gone(rank);
    }
  }

 private:
  /// A process that leaves may have sent before: a new channel is seen after several rounds of
  /// polling, some 200 ms in all.
  static constexpr std::uint64_t between_looks_ns = 50'000'000;
  static constexpr unsigned looks_until_gone = 20;
  struct Rank {
    std::uint64_t token = 0;           ///< 0: unknown
    std::uint32_t requests = 0;        ///< that name it
    unsigned looks_gone = 0;           ///< looks that found its process gone
    std::unique_ptr<const Error> end;  ///< null: it has not ended
  };
  std::uint32_t& of(std::uint32_t rank) {
    return rank == any_source ? from_any_ : ranks_[rank].requests;
  }

  pool::Pool& pool_;
  const std::uint32_t self_;
  std::vector<Rank> ranks_;
  std::uint32_t others_;  ///< that have not ended
  std::uint32_t from_any_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t next_look_ns_ = 0;
};

}  // namespace penstock::messages
