// Many chunks of a message by one launch, where a stream has no room for the operations of each: so
// the thread that enqueues them need not wait for the other rank. One block of threads waits for
// each chunk, copies it, and tells that it is done, by the words by which streams do so. Compiled
// for the GPU by chunk_run.cu, and for the host by the stand-in GPU. Protocol:
// docs/protocols/gpu-messages.md.
#pragma once

#include "gpu/fused.hpp"

namespace penstock::gpu {

/// A chunk. Pointers are the GPU's.
struct ChunkMove {
  void* to = nullptr;
  const void* from = nullptr;
  std::uint64_t bytes = 0;
};

/// Arguments of a launch. Chunks are counted from 0.
struct ChunkRun {
  static constexpr std::uint64_t entries = 4096;

  const ChunkMove* ring = nullptr;  ///< chunk k is entry k % entries
  std::uint64_t begin = 0, end = 0;
  const std::uint64_t* go = nullptr;  ///< chunks that may begin; released_word: none does any more
  std::uint64_t* done = nullptr;      ///< chunks that are done
};

/// `Block`: as for CarryingOut.
template <class Block>
PENSTOCK_HOST_DEVICE inline void carry_chunks(const ChunkRun& run, const Block& block) {
  for (std::uint64_t k = run.begin; k < run.end; ++k) {
    std::uint64_t go = block.thread() == 0 ? block.load(run.go) : k + 1;
    for (; go <= k; go = block.load(run.go)) block.pause();
    if (!block.sync_and(go < released_word)) return;
    const ChunkMove& chunk = run.ring[k % ChunkRun::entries];
    FusedCall::Move move{};
    move.to = chunk.to;
    move.bytes = static_cast<std::uint32_t>(chunk.bytes);
    block.copy(move, chunk.from, block.thread());
    block.sync_threads();
    if (block.thread() != 0) continue;
    block.release_fence();
    block.store(run.done, k + 1);
  }
}

}  // namespace penstock::gpu
