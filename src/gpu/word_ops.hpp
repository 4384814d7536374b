// A launch that does the work of stream memory operations in the direct form: for GPUs that have
// none, and for graphs, whose launches are frozen at their capture: so it takes the number of the
// collective from memory of the GPU, which each call advances. Compiled for the GPU by words.cu,
// and for the host by the stand-in GPU.
#pragma once

#include <cstdint>

#include "schedule/element.hpp"

namespace penstock::gpu {

/// The GPU's form of coll::DirectTurn.
struct CallTurn {
  std::uint64_t number = 0;
  std::uint64_t free = 0;
  std::uint64_t resumes = 0;
};

/// State in memory of the GPU, zero at first: of the current call and of those before it.
struct Epoch {
  CallTurn turn;
  std::uint64_t last = 0;      ///< last collective of this kind; 0: none yet by launches
  std::uint64_t used[2] = {};  ///< by half of the slots: the last collective that used it
};

/// Shared by the launches of a communicator. Pointers are the GPU's.
struct LaunchWords {
  Epoch* epoch = nullptr;
  // Host words:
  std::uint64_t* number = nullptr;       ///< the last collective begun, by a host or the GPU
  std::uint64_t* begun = nullptr;        ///< the last one begun by the GPU
  std::uint64_t* done = nullptr;         ///< written last; null: not by this launch
  const std::uint64_t* stops = nullptr;  ///< not zero: wait for nothing, write nothing
  std::uint64_t last = 0;                ///< last collective before the first call by launches
  std::uint32_t begins = 0;              ///< not zero: this launch begins a call, and counts it
                                         ///< first
  std::uint32_t half = 0;                ///< half of the slots that the call uses
};

/// A word that is waited for, or written.
struct WordOp {
  enum Kind : std::uint32_t { wait, wait_free, signal, signal_resume };
  std::uint64_t* word;
  std::uint32_t low;  ///< chunks of this collective
  Kind kind;
};
inline constexpr unsigned word_low_bits = 24;  ///< as coll::low_bits
/// The value of a word that the host has raised to release its GPU; as coll::Direct::gone.
inline constexpr std::uint64_t released_word = 1ull << 62;

/// Waits come before writes; within each group the order is free.
struct WordOps : LaunchWords {
  static constexpr std::uint32_t most = 160;  ///< arguments of a launch have at most 4 KB
  std::uint32_t count = 0;
  WordOp op[most] = {};
};
static_assert(sizeof(WordOps) <= 4096);

/// Numbers a call. `Access`: loads and stores that hosts and other GPUs see.
template <class Access>
PENSTOCK_HOST_DEVICE inline void number_call(const LaunchWords& ops, const Access& access) {
  Epoch& epoch = *ops.epoch;
  const std::uint64_t before = access.load(ops.number);
  if (epoch.last == 0) {  // the host numbered the earlier calls
    epoch.last = ops.last;
    epoch.used[0] = epoch.used[1] = before;
  }
  epoch.turn.number = before + 1;
  epoch.turn.resumes = before != epoch.last ? 1 : 0;
  if (epoch.turn.resumes != 0) epoch.used[0] = epoch.used[1] = before;
  epoch.last = epoch.turn.number;
  access.store(ops.number, epoch.turn.number);
  access.store(ops.begun, epoch.turn.number);
}

/// Called by one thread, before the rest.
template <class Access>
PENSTOCK_HOST_DEVICE inline void begin_call(const LaunchWords& ops, const Access& access) {
  number_call(ops, access);
  Epoch& epoch = *ops.epoch;
  epoch.turn.free = epoch.used[ops.half];
  epoch.used[ops.half] = epoch.turn.number;
}

inline constexpr std::uint32_t looks_between_stops = 16;

constexpr bool is_wait(WordOp::Kind kind) {
  return kind <= WordOp::wait_free;
}

/// False: the launch was stopped, or the word has only the value by which its host releases this
/// GPU.
template <class Access>
PENSTOCK_HOST_DEVICE inline bool await_one(const CallTurn& turn, const WordOp& op,
                                           const std::uint64_t* stops, const Access& access) {
  const std::uint64_t collective = op.kind == WordOp::wait_free ? turn.free : turn.number;
  const std::uint64_t wanted = collective << word_low_bits | op.low;
  for (std::uint32_t looks = 1;; ++looks) {
    const std::uint64_t found = access.load(op.word);
    if (found >= wanted) return found < released_word;
    // The host raises the word too; another GPU may have written it since.
    if (looks % looks_between_stops == 0 && access.load(stops) != 0) return false;
    access.pause();
  }
}

/// Called after a fence that orders all that the reader of the word must see.
template <class Access>
PENSTOCK_HOST_DEVICE inline void signal_one(const CallTurn& turn, const WordOp& op,
                                            const Access& access) {
  if (op.kind == WordOp::signal_resume && turn.resumes == 0) return;
  const std::uint64_t collective = op.kind == WordOp::signal_resume ? turn.number - 1 : turn.number;
  access.store(op.word, collective << word_low_bits | op.low);
}

}  // namespace penstock::gpu
