// Records which process has declared which dead. A process that showed no life for a lease may be
// alive: it was stopped, or its host was. The declaring process publishes the verdict here before
// it acts on it, so that the late process, when it resumes, finds out before it touches memory that
// is no longer its own.
//
// The two meet as in Dekker's algorithm: one publishes the verdict and then reads the heartbeat
// once more; the other publishes a beat and then looks for a verdict. At least one of them finds
// what the other wrote.
//
// Several nodes may write into a line, whole words and only ever by publish_word: two that say the
// same of a process are both right. The words of a line are for eight generations in turn, so that
// a verdict that arrives late hits none of a later owner of the slot.
#pragma once

#include <optional>

#include "pool/attaching.hpp"
#include "pool/layout.hpp"

namespace penstock::pool {

class VerdictTable {
 public:
  VerdictTable(const coherence::Memory& memory, std::byte* base, const Superblock& superblock)
      : memory_(memory),
        base_(base),
        offset_(superblock.verdicts_offset),
        slots_(superblock.max_processes),
        attaching_(superblock.max_nodes + names_of(superblock.max_nodes)) {}

  /// `token` is taken for dead by `judge`. What is loaded afterwards is newer than the verdict.
  void publish(std::uint64_t token, std::uint64_t judge) const;
  /// Slot and attaching bit of the process that has taken `token` for dead; nullopt: none has.
  std::optional<std::uint64_t> judge_of(std::uint64_t token) const;

 private:
  /// nullopt: the token is none of this pool.
  std::optional<std::uint64_t> place(std::uint64_t token) const;
  coherence::Memory memory_;
  std::byte* base_;
  std::uint64_t offset_;
  std::uint64_t slots_, attaching_;
};

}  // namespace penstock::pool
