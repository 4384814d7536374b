// A launch that does what streams do by stream memory operations in the direct form: for GPUs that
// have none, and for graphs, whose launches are frozen when they are captured: so it takes the
// number of the collective from memory of the GPU, which each call advances. Compiled for the GPU
// by words.cu, and for the host by the stand-in GPU. Source: gpu.md, "CUDA" (graph capture).
#pragma once

#include <cstdint>

#include "coll/element.hpp"

namespace penstock::gpu {

/// In memory of the GPU, zero at first: what coll::DirectTurn says of the call in progress.
struct Epoch {
  std::uint64_t number = 0;
  std::uint64_t free = 0;
  std::uint64_t resumes = 0;
  std::uint64_t last = 0;      ///< collective of this kind; 0: there was none by launches
  std::uint64_t used[2] = {};  ///< by half of the slots: the last collective
};

/// Pointers are the GPU's. Waits come before what is told, in any order among themselves.
struct WordOps {
  static constexpr std::uint32_t most = 160;  ///< arguments of a launch are 4 KB at most
  static constexpr unsigned low_bits = 24;    ///< coll::low_bits
  enum Kind : std::uint32_t { wait, wait_free, tell, tell_resume };
  struct Op {
    std::uint64_t* word;
    std::uint32_t low;  ///< chunks of this collective
    Kind kind;
  };

  Epoch* epoch = nullptr;
  // Words of the host:
  std::uint64_t* number = nullptr;       ///< the last collective that was begun, by a host or not
  std::uint64_t* begun = nullptr;        ///< ... by the GPU
  std::uint64_t* done = nullptr;         ///< told at last; null: not by this launch
  const std::uint64_t* stops = nullptr;  ///< not zero: wait for nothing, and tell nothing
  std::uint64_t last = 0;                ///< before the first call by launches
  std::uint32_t begins = 0;              ///< a call: count it first
  std::uint32_t half = 0;                ///< of its slots
  std::uint32_t count = 0;
  Op op[most] = {};
};
static_assert(sizeof(WordOps) <= 4096);

/// By one thread, before the rest. `Access`: loads and stores that hosts and other GPUs see.
template <class Access>
PENSTOCK_HOST_DEVICE inline void begin_call(const WordOps& ops, const Access& access) {
  Epoch& epoch = *ops.epoch;
  const std::uint64_t before = access.load(ops.number);
  if (epoch.last == 0) {  // earlier calls were numbered by the host
    epoch.last = ops.last;
    epoch.used[0] = epoch.used[1] = before;
  }
  epoch.number = before + 1;
  epoch.resumes = before != epoch.last ? 1 : 0;
  if (epoch.resumes != 0) epoch.used[0] = epoch.used[1] = before;
  epoch.free = epoch.used[ops.half];
  epoch.used[ops.half] = epoch.last = epoch.number;
  access.store(ops.number, epoch.number);
  access.store(ops.begun, epoch.number);
}

/// False: it was stopped.
template <class Access>
PENSTOCK_HOST_DEVICE inline bool await_one(const WordOps& ops, const WordOps::Op& op,
                                           const Access& access) {
  const std::uint64_t collective =
      op.kind == WordOps::wait_free ? ops.epoch->free : ops.epoch->number;
  const std::uint64_t wanted = collective << WordOps::low_bits | op.low;
  while (static_cast<std::int64_t>(access.load(op.word) - wanted) < 0) {
    if (access.load(ops.stops) != 0) return false;
    access.pause();
  }
  return true;
}

/// After a fence for all that is to be seen by who is told.
template <class Access>
PENSTOCK_HOST_DEVICE inline void tell_one(const WordOps& ops, const WordOps::Op& op,
                                          const Access& access) {
  if (op.kind == WordOps::tell_resume && ops.epoch->resumes == 0) return;
  if (access.load(ops.stops) != 0) return;
  const std::uint64_t collective =
      op.kind == WordOps::tell_resume ? ops.epoch->number - 1 : ops.epoch->number;
  access.store(op.word, collective << WordOps::low_bits | op.low);
}

}  // namespace penstock::gpu
