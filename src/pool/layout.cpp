#include "pool/layout.hpp"

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "pool/flush_table.hpp"
#include "pool/slot_blocks.hpp"
#include "sync/sync.hpp"

namespace penstock::pool {

std::uint32_t default_processes(std::uint64_t pool_bytes) {
  constexpr std::uint64_t slot_bytes = sizeof(StateLine) + sizeof(DetailLines) + sizeof(LeaseLine) +
                                       sizeof(StatsLine) + sizeof(ActivityLines) +
                                       sizeof(VerdictLine);
  constexpr std::uint64_t share = 32;
  std::uint32_t processes = least_default_ranks * slots_per_rank;
  while (processes < default_ranks * slots_per_rank &&
         2 * processes * slot_bytes <= pool_bytes / share)
    processes *= 2;
  return processes;
}

namespace {

Result<void> check_limits(const device::Superblock& s) {
  if (s.max_processes < 1 || s.max_processes > max_processes) {
    return fail(ErrorCode::invalid_argument,
                "{} process slots asked for, a pool holds 1 to {}, two a rank; give --ranks 1 to "
                "--ranks {}",
                s.max_processes, max_processes, max_processes / slots_per_rank);
  }
  if (s.max_nodes < 1 || s.max_nodes > max_nodes) {
    return fail(ErrorCode::invalid_argument,
                "{} nodes asked for, a pool holds 1 to {}; give --nodes in that range", s.max_nodes,
                max_nodes);
  }
  return {};
}

}  // namespace

Result<void> lay_out(device::Superblock& s) {
  PENSTOCK_TRY(check_limits(s));
  const std::uint64_t names = names_of(s.max_nodes);
  std::uint64_t next = device::page_bytes;
  auto take = [&next](std::uint64_t bytes) {
    const std::uint64_t offset = next;
    next = base::align_up(next + bytes, device::page_bytes);
    return offset;
  };
  s.renaming_offset = take(sync::Renaming::bytes(static_cast<std::uint32_t>(names)));
  s.attaching_offset = take((s.max_nodes + names) * sizeof(AttachingLine));
  s.registration_offset = take(sync::Lock::bytes(static_cast<std::uint32_t>(names)));
  s.nodes_offset = take(s.max_nodes * sizeof(NodeLine));
  s.places_offset = take(place_lines_of(s.max_nodes) * sizeof(PlaceLine));
  s.homes_offset = take(s.max_nodes * sizeof(HomeLine));
  s.lock_offset = take(sync::Lock::bytes(s.max_nodes));
  s.flushes_offset = take(FlushTable::bytes(s.max_nodes));
  s.blocks_offset = take(SlotBlocks::bytes(blocks_of(s.max_processes, s.max_nodes)));
  s.states_offset = take(s.max_processes * sizeof(StateLine));
  s.details_offset = take(s.max_processes * sizeof(DetailLines));
  s.leases_offset = take(s.max_processes * sizeof(LeaseLine));
  s.stats_offset = take(s.max_processes * sizeof(StatsLine));
  s.activities_offset = take(s.max_processes * sizeof(ActivityLines));
  s.verdicts_offset = take((s.max_processes + s.max_nodes + names) * sizeof(VerdictLine));
  if (next > s.bytes / 2) {
    return fail(ErrorCode::invalid_argument,
                "tables for {} process slots and {} nodes take {}, more than half of a pool of {}; "
                "give a larger --size, or a smaller --ranks or --nodes",
                s.max_processes, s.max_nodes, base::format_bytes(next),
                base::format_bytes(s.bytes));
  }
  s.arena_offset = next;
  s.arena_bytes = s.bytes - next;
  return {};
}

}  // namespace penstock::pool
