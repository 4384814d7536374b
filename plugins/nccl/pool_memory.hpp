// Memory that ncclMemAlloc() takes from the pool (PENSTOCK_NCCL_MEMORY=pool). Each allocation is a
// pool object; the GPU reaches it because it is registered, hosts because they map the pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/abi.hpp"

namespace penstock::nccl {

/// Whether ncclMemAlloc() allocates in the pool. Errors: the variable has an unknown value.
Result wants_pool_memory(bool& wanted);

/// Allocates in the pool. `made`: the GPU's address or, without a GPU, this process's. The two are
/// equal on GPUs that use the host's address for registered memory, as on x86 hosts. Errors: no
/// pool is known; the pool is full; more bytes than a GPU registers at once; the driver refuses to
/// register the memory.
Result allocate_pool_memory(std::size_t bytes, void** made);
/// Frees memory of allocate_pool_memory(); no call may still use it. False if it is other memory.
bool free_pool_memory(void* memory);

/// This process's address of [at, at + bytes) if all of it lies in one allocation of
/// allocate_pool_memory(); else null.
std::byte* in_pool_memory(const void* at, std::uint64_t bytes);

}  // namespace penstock::nccl
