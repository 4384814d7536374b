// The kernel of chunk_run.hpp: one block, as in fused.cu.
#include "gpu/chunk_run.hpp"

namespace penstock::gpu {

extern "C" __global__ void __launch_bounds__(fused_threads, 1)
    penstock_chunks(const __grid_constant__ ChunkRun run) {
  carry_chunks(run, DeviceBlock());
}

}  // namespace penstock::gpu
