// A schedule that a GPU carries out by itself, without a thread of the host on the way of the data:
// what its two streams wait for, move and tell, in the order in which they are given it. The words
// are the communicator's own (layout.hpp, "direct"); each has one reader, a GPU, whose host may
// raise it to let the GPU go. Protocol: docs/protocols/collectives.md, "Without a thread of the
// host". Source: gpu.md, "CUDA"; CCCL, section 4.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/layout.hpp"
#include "coll/schedule.hpp"

namespace penstock::coll {

/// What a stream is given. A wait is over when the word is at least the value; what the stream is
/// given behind it sees all that was published before the word was told. A word is told when all
/// that the stream was given before it is done and visible to every GPU and host.
struct DirectOp {
  enum class Kind : std::uint8_t {
    resume,  ///< tell that all earlier collectives are finished; only after calls by hosts
    free,    ///< wait until `rank` has finished the last collective that used these slots
    await,   ///< wait for chunks of this collective: `low`
    move,    ///< what step `step` moves
    join,    ///< wait until the other lane has done what it has been given so far
    tell,    ///< chunks of this collective: `low`
    finish,  ///< tell that this collective is finished
  };
  Kind kind = Kind::move;
  Lane lane = Lane::read;
  bool fenced = true;      ///< false: a fault, for proofs
  std::uint32_t rank = 0;  ///< who tells or is told
  std::uint32_t step = 0;
  std::uint64_t low = 0;  ///< the low bits of the word's value
  std::uint64_t at = 0;   ///< the word, in the communicator's memory
};

/// Which collective a call is, and what must be finished before its slots are written.
struct DirectTurn {
  std::uint64_t number = 0;
  std::uint64_t half = 0;  ///< of the slots
  std::uint64_t free = 0;  ///< the last collective that used the half, or a host's after it
  bool resumes = false;    ///< hosts have made calls since the last one
  /// What is told or waited for.
  std::uint64_t value(const DirectOp& op) const {
    if (op.kind == DirectOp::Kind::free) return word_of(free, 0);
    if (op.kind == DirectOp::Kind::resume) return word_of(number - 1, 0);
    return word_of(number, op.low);
  }
};

/// Ops of one rank, all in an order that needs one thread, with lanes that run side by side.
std::vector<DirectOp> direct_program_of(const Schedule& schedule, const Layout& layout,
                                        std::uint32_t ranks, std::uint32_t self);

}  // namespace penstock::coll
