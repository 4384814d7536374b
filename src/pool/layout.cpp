#include "pool/layout.hpp"

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "pool/flush_table.hpp"
#include "sync/sync.hpp"

namespace penstock::pool {

Result<void> lay_out(Superblock& s) {
  if (s.max_processes < 1 || s.max_processes > max_processes) {
    return fail(ErrorCode::invalid_argument,
                "{} processes asked for, a pool holds 1 to {}; give --max-processes in that range",
                s.max_processes, max_processes);
  }
  if (s.max_nodes < 1 || s.max_nodes > max_nodes) {
    return fail(ErrorCode::invalid_argument,
                "{} nodes asked for, a pool holds 1 to {}; give --max-nodes in that range",
                s.max_nodes, max_nodes);
  }
  const std::uint64_t names = names_of(s.max_nodes);
  std::uint64_t next = page_bytes;
  auto take = [&next](std::uint64_t bytes) {
    const std::uint64_t offset = next;
    next = base::align_up(next + bytes, page_bytes);
    return offset;
  };
  s.renaming_offset = take(sync::Renaming::bytes(s.max_nodes));
  s.attaching_offset = take(names * sizeof(AttachingLine));
  s.registration_offset = take(sync::Lock::bytes(static_cast<std::uint32_t>(names)));
  s.nodes_offset = take(s.max_nodes * sizeof(NodeLine));
  s.lock_offset = take(sync::Lock::bytes(s.max_nodes));
  s.flushes_offset = take(FlushTable::bytes(s.max_nodes));
  s.states_offset = take(s.max_processes * sizeof(StateLine));
  s.details_offset = take(s.max_processes * sizeof(DetailLines));
  s.leases_offset = take(s.max_processes * sizeof(LeaseLine));
  s.stats_offset = take(s.max_processes * sizeof(StatsLine));
  s.activities_offset = take(s.max_processes * sizeof(ActivityLines));
  s.verdicts_offset = take((s.max_processes + names) * sizeof(VerdictLine));
  if (next > s.bytes / 2) {
    return fail(ErrorCode::invalid_argument,
                "tables for {} processes and {} nodes take {}, more than half of a pool of {}; "
                "give a larger --size or a smaller --max-processes",
                s.max_processes, s.max_nodes, base::format_bytes(next),
                base::format_bytes(s.bytes));
  }
  s.arena_offset = next;
  s.arena_bytes = s.bytes - next;
  return {};
}

}  // namespace penstock::pool
