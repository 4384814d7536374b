// A schedule that a GPU runs by itself, with no host thread in the data path: what its two streams
// wait for, move and publish, in the order in which they are enqueued. The words are the
// communicator's own (layout.hpp, "direct"). Each has one reader, a GPU, and that GPU's host may
// raise the word to release it. Protocol: docs/protocols/collectives.md, "Without a thread of the
// host". Source: CCCL, section 4.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/layout.hpp"
#include "schedule/schedule.hpp"

namespace penstock::coll {

/// One op of a stream. A wait ends when the word is at least the value. Ops after it see everything
/// that was published before the word was written. A word is written when all earlier ops of the
/// stream are done and visible to every GPU and host.
struct DirectOp {
  enum class Kind : std::uint8_t {
    resume,  ///< publish that all earlier collectives are finished; only after calls by hosts
    free,    ///< wait until `rank` has finished the last collective that used these slots
    await,   ///< wait for chunks of this collective: `low`
    move,    ///< move the data of step `step`
    join,    ///< wait until the other lane has done everything enqueued so far
    signal,  ///< publish chunks of this collective: `low`
    finish,  ///< publish that this collective is finished
  };
  Kind kind = Kind::move;
  Lane lane = Lane::read;
  bool fenced = true;      ///< false: a fault, for proofs
  std::uint32_t rank = 0;  ///< the rank that writes the word, or reads it
  std::uint32_t step = 0;
  std::uint64_t low = 0;  ///< the low bits of the word's value
  std::uint64_t at = 0;   ///< offset of the word in the communicator's memory
};

/// The collective that a call is, and what must be finished before its slots are written.
struct DirectTurn {
  std::uint64_t number = 0;
  std::uint64_t half = 0;  ///< of the slots
  std::uint64_t free = 0;  ///< the last collective that used the half, or a later one of a host
  bool resumes = false;    ///< hosts have made calls since the last one
  /// Of a flagged call: its number among them, from 1; 0: the GPU counts. `free` is then the call
  /// that used the block last.
  std::uint64_t flagged = 0;
  /// The value to wait for or to write.
  std::uint64_t value(const DirectOp& op) const {
    if (op.kind == DirectOp::Kind::free) return word_of(free, 0);
    if (op.kind == DirectOp::Kind::resume) return word_of(number - 1, 0);
    return word_of(number, op.low);
  }
};

/// Ops of one rank, in an order that one thread can follow. The lanes run side by side.
std::vector<DirectOp> direct_program_of(const Schedule& schedule, const Layout& layout,
                                        std::uint32_t ranks, std::uint32_t self);

}  // namespace penstock::coll
