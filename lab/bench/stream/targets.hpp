// The kinds of targets, one file each.
#pragma once

#include "bench/bench_pool.hpp"
#include "bench/stream/target.hpp"

namespace penstock::bench::stream {

using OpenedTarget = Result<std::unique_ptr<Target>>;

/// Ordinary memory, placed by the kernel.
OpenedTarget open_memory(const TargetSpec& spec, std::uint64_t elements);
/// Memory of one NUMA node, bound by libnuma.
OpenedTarget open_numa(const TargetSpec& spec, std::uint64_t elements);
/// Objects of libpmemobj in a file that is removed.
OpenedTarget open_pmem(const TargetSpec& spec, std::uint64_t elements);
/// Objects of a pool's arena.
OpenedTarget open_pool(const TargetSpec& spec, std::uint64_t elements);

/// The same, with separate objects for each thread, changed by transactions.
OpenedTarget open_pool_transactions(const TargetSpec& spec, std::uint64_t elements,
                                    unsigned threads);
/// A temporary pool, or the given one, with room for `bytes` in objects.
Result<BenchPool> prepare_pool(const TargetSpec& spec, std::uint64_t bytes);

/// Adds the errors of an array in the object, as this attachment finds it; for tests optionally
/// without observing it.
void add_errors(ErrorSum& sum, const pool::Pool& reader, const arena::Object& object,
                std::uint64_t elements, bool observe = true);

/// Bytes that arrays on this target may take together.
Result<std::uint64_t> memory_room();
Result<std::uint64_t> numa_room(const TargetSpec& spec);
Result<std::uint64_t> pmem_room(const TargetSpec& spec);
Result<std::uint64_t> pool_room(const TargetSpec& spec);

/// Bytes that a process can still have: 3/4 of the machine's free memory.
std::uint64_t free_memory();
/// 3/4 of the free space in the folder's file system. Errors: not_found.
Result<std::uint64_t> free_in(const std::string& folder);

}  // namespace penstock::bench::stream
