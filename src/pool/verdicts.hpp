// Records which process has declared which dead. A process that showed no life for a lease may
// still be alive: it, or its host, was stopped. The declaring process publishes the verdict here
// before it acts on it, so that the late process, when it resumes, learns of it before it touches
// memory that has a new owner.
//
// The two follow Dekker's algorithm: one publishes the verdict and then reads the heartbeat once
// more; the other publishes a beat and then looks for a verdict. At least one of them sees the
// other's store.
//
// Several nodes may write into a line, always whole words by publish_word: any of two verdicts on
// the same process is right. The words of a line serve eight generations in turn, so that a late
// verdict does not hit a later owner of the slot.
#pragma once

#include <optional>

#include "pool/attaching.hpp"
#include "pool/layout.hpp"

namespace penstock::pool {

class VerdictTable {
 public:
  VerdictTable(const coherence::Memory& memory, std::byte* base,
               const device::Superblock& superblock)
      : memory_(memory),
        base_(base),
        offset_(superblock.verdicts_offset),
        slots_(superblock.max_processes),
        attaching_(superblock.max_nodes + names_of(superblock.max_nodes)) {}

  /// `judge` declares `token` dead. Later loads are newer than the verdict.
  void publish(std::uint64_t token, std::uint64_t judge) const;
  /// Slot and attaching bit of the process that declared `token` dead; nullopt: none has.
  std::optional<std::uint64_t> judge_of(std::uint64_t token) const;

 private:
  /// nullopt: not a token of this pool.
  std::optional<std::uint64_t> place(std::uint64_t token) const;
  coherence::Memory memory_;
  std::byte* base_;
  std::uint64_t offset_;
  std::uint64_t slots_, attaching_;
};

}  // namespace penstock::pool
