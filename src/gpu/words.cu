// The kernel of word_ops.hpp: one block, a thread for each word.
#include "gpu/word_ops.hpp"

namespace penstock::gpu {

namespace {

/// Accesses with system scope: other GPUs and hosts see them.
struct SystemAccess {
  __device__ std::uint64_t load(const std::uint64_t* word) const {
    std::uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ void store(std::uint64_t* word, std::uint64_t value) const {
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  __device__ void pause() const { __nanosleep(200); }
};

}  // namespace

extern "C" __global__ void penstock_words(const __grid_constant__ WordOps ops) {
  const SystemAccess access;
  if (ops.begins != 0) {
    if (threadIdx.x == 0) begin_call(ops, access);
    __syncthreads();
  }
  const CallTurn turn = ops.epoch->turn;
  for (std::uint32_t i = threadIdx.x; i < ops.count; i += blockDim.x)
    if (is_wait(ops.op[i].kind)) await_one(turn, ops.op[i], ops.stops, access);
  // Later operations see what was waited for, and readers of the written words see all that came
  // before.
  __threadfence_system();
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < ops.count; i += blockDim.x)
    if (!is_wait(ops.op[i].kind) && access.load(ops.stops) == 0)
      signal_one(turn, ops.op[i], access);
  __syncthreads();
  if (threadIdx.x == 0 && ops.done != nullptr) access.store(ops.done, turn.number);
}

}  // namespace penstock::gpu
