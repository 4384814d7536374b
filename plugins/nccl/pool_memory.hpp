// Memory that ncclMemAlloc() takes from the pool (PENSTOCK_NCCL_MEMORY=pool): an object of the
// pool, which the GPU reaches by its registration and hosts by their mapping.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/abi.hpp"

namespace penstock::nccl {

/// Whether ncclMemAlloc() shall take it from the pool. Errors: a value that is none.
Result wants_pool_memory(bool& wanted);

/// `made`: as the GPU names it, and without one as this process does. On GPUs that reach registered
/// memory by the host's address (those on x86 hosts do) the two are the same. Errors: no pool is
/// known; no space in it;
/// more bytes than a GPU registers at once; the driver does not register it.
Result allocate_pool_memory(std::size_t bytes, void** made);
/// False: the memory is none of ours. No call uses it any more.
bool free_pool_memory(void* memory);

/// As this process names [at, at + bytes), where all of it lies in memory of
/// allocate_pool_memory(); else null.
std::byte* in_pool_memory(const void* at, std::uint64_t bytes);

}  // namespace penstock::nccl
