// A launch that does what streams do by stream memory operations in the direct form: for GPUs that
// have none, and for graphs, whose launches are frozen when they are captured: so it takes the
// number of the collective from memory of the GPU, which each call advances. Compiled for the GPU
// by words.cu, and for the host by the stand-in GPU. Source: gpu.md, "CUDA" (graph capture).
#pragma once

#include <cstdint>

#include "coll/element.hpp"

namespace penstock::gpu {

/// What coll::DirectTurn says of a call.
struct CallTurn {
  std::uint64_t number = 0;
  std::uint64_t free = 0;
  std::uint64_t resumes = 0;
};

/// In memory of the GPU, zero at first: of the call in progress, and of those before it.
struct Epoch {
  CallTurn turn;
  std::uint64_t last = 0;      ///< collective of this kind; 0: there was none by launches
  std::uint64_t used[2] = {};  ///< by half of the slots: the last collective
};

/// What launches of a communicator share. Pointers are the GPU's.
struct LaunchWords {
  Epoch* epoch = nullptr;
  // Words of the host:
  std::uint64_t* number = nullptr;       ///< the last collective that was begun, by a host or not
  std::uint64_t* begun = nullptr;        ///< ... by the GPU
  std::uint64_t* done = nullptr;         ///< told at last; null: not by this launch
  const std::uint64_t* stops = nullptr;  ///< not zero: wait for nothing, and tell nothing
  std::uint64_t last = 0;                ///< before the first call by launches
  std::uint32_t begins = 0;              ///< a call: count it first
  std::uint32_t half = 0;                ///< of its slots
};

/// A word that is waited for, or told.
struct WordOp {
  enum Kind : std::uint32_t { wait, wait_free, tell, tell_resume };
  std::uint64_t* word;
  std::uint32_t low;  ///< chunks of this collective
  Kind kind;
};
inline constexpr unsigned word_low_bits = 24;  ///< coll::low_bits
/// Of a word that the host has raised to let its GPU go; coll::Direct::gone.
inline constexpr std::uint64_t let_go_word = 1ull << 62;

/// Waits come before what is told, in any order among themselves.
struct WordOps : LaunchWords {
  static constexpr std::uint32_t most = 160;  ///< arguments of a launch are 4 KB at most
  std::uint32_t count = 0;
  WordOp op[most] = {};
};
static_assert(sizeof(WordOps) <= 4096);

/// By one thread, before the rest. `Access`: loads and stores that hosts and other GPUs see.
template <class Access>
PENSTOCK_HOST_DEVICE inline void begin_call(const LaunchWords& ops, const Access& access) {
  Epoch& epoch = *ops.epoch;
  const std::uint64_t before = access.load(ops.number);
  if (epoch.last == 0) {  // earlier calls were numbered by the host
    epoch.last = ops.last;
    epoch.used[0] = epoch.used[1] = before;
  }
  epoch.turn.number = before + 1;
  epoch.turn.resumes = before != epoch.last ? 1 : 0;
  if (epoch.turn.resumes != 0) epoch.used[0] = epoch.used[1] = before;
  epoch.turn.free = epoch.used[ops.half];
  epoch.used[ops.half] = epoch.last = epoch.turn.number;
  access.store(ops.number, epoch.turn.number);
  access.store(ops.begun, epoch.turn.number);
}

inline constexpr std::uint32_t looks_between_stops = 16;

constexpr bool is_wait(WordOp::Kind kind) {
  return kind <= WordOp::wait_free;
}

/// False: it was stopped, or the word tells of nothing but that its host lets this GPU go.
template <class Access>
PENSTOCK_HOST_DEVICE inline bool await_one(const CallTurn& turn, const WordOp& op,
                                           const std::uint64_t* stops, const Access& access) {
  const std::uint64_t collective = op.kind == WordOp::wait_free ? turn.free : turn.number;
  const std::uint64_t wanted = collective << word_low_bits | op.low;
  for (std::uint32_t looks = 1;; ++looks) {
    const std::uint64_t found = access.load(op.word);
    if (found >= wanted) return found < let_go_word;
    // The host raises the word too; another GPU may have told it since.
    if (looks % looks_between_stops == 0 && access.load(stops) != 0) return false;
    access.pause();
  }
}

/// After a fence for all that is to be seen by who is told.
template <class Access>
PENSTOCK_HOST_DEVICE inline void tell_one(const CallTurn& turn, const WordOp& op,
                                          const Access& access) {
  if (op.kind == WordOp::tell_resume && turn.resumes == 0) return;
  const std::uint64_t collective = op.kind == WordOp::tell_resume ? turn.number - 1 : turn.number;
  access.store(op.word, collective << word_low_bits | op.low);
}

}  // namespace penstock::gpu
