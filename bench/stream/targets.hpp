// The kinds of targets, one file each.
#pragma once

#include "bench/stream/target.hpp"

namespace penstock::bench::stream {

using OpenedTarget = Result<std::unique_ptr<Target>>;

/// Ordinary memory, where the kernel puts it.
OpenedTarget open_memory(const TargetSpec& spec, std::uint64_t elements);
/// Memory of one NUMA node, bound by libnuma.
OpenedTarget open_numa(const TargetSpec& spec, std::uint64_t elements);
/// Objects of libpmemobj in a file that is removed.
OpenedTarget open_pmem(const TargetSpec& spec, std::uint64_t elements);
/// Objects of a pool's arena.
OpenedTarget open_pool(const TargetSpec& spec, std::uint64_t elements);

/// Bytes that arrays there may take together.
Result<std::uint64_t> memory_room();
Result<std::uint64_t> numa_room(const TargetSpec& spec);
Result<std::uint64_t> pmem_room(const TargetSpec& spec);
Result<std::uint64_t> pool_room(const TargetSpec& spec);

/// Bytes a process can still have: 3/4 of what the machine has free.
std::uint64_t free_memory();
/// 3/4 of what is free in the folder's file system. Error: not_found.
Result<std::uint64_t> free_in(const std::string& folder);

}  // namespace penstock::bench::stream
