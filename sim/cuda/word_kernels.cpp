// The kernel of gpu/words.cu on the stand-in GPU: the same code of a word, on the host.
#include <sched.h>

#include "gpu/word_ops.hpp"
#include "sim/cuda/kernels.hpp"
#include "sim/cuda/stream.hpp"

namespace penstock::sim::cuda {

namespace {

using gpu::WordOps;

struct HostAccess {
  std::uint64_t load(const std::uint64_t* word) const {
    return sticky_error() == success ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : ~0ull >> 1;
  }
  void store(std::uint64_t* word, std::uint64_t value) const {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
  }
  void pause() const { sched_yield(); }
};

template <class Pointed>
bool reach(Pointed*& pointer, bool may_be_null = false) {
  if (pointer == nullptr) return may_be_null;
  void* const found =
      Memory::instance().reach(reinterpret_cast<DevicePointer>(pointer), sizeof(Pointed));
  pointer = static_cast<Pointed*>(found);
  return found != nullptr;
}

bool reach_all(WordOps& ops) {
  bool found = reach(ops.epoch) && reach(ops.number) && reach(ops.begun) && reach(ops.stops) &&
               reach(ops.done, true);
  for (std::uint32_t i = 0; i < ops.count; ++i) found = found && reach(ops.op[i].word);
  return found;
}

void words(const Grid&, void* const* arguments) {
  WordOps ops = *static_cast<const WordOps*>(arguments[0]);
  if (!reach_all(ops)) return set_sticky_error(illegal_address);
  const HostAccess access;
  if (ops.begins != 0) gpu::begin_call(ops, access);
  const gpu::CallTurn turn = ops.epoch->turn;
  for (std::uint32_t i = 0; i < ops.count; ++i)
    if (is_wait(ops.op[i].kind)) gpu::await_one(turn, ops.op[i], ops.stops, access);
  for (std::uint32_t i = 0; i < ops.count; ++i)
    if (!is_wait(ops.op[i].kind) && access.load(ops.stops) == 0)
      gpu::signal_one(turn, ops.op[i], access);
  if (ops.done != nullptr) access.store(ops.done, turn.number);
}

}  // namespace

void add_word_kernels() {
  add_kernel("penstock_words", sizeof(WordOps), words);
}

}  // namespace penstock::sim::cuda
