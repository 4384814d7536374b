// Lists the extents in quarantine. How it begins and ends: space.cpp, flusher.cpp.
#include <algorithm>
#include <map>

#include "arena/impl.hpp"
#include "pool/flush_table.hpp"
#include "pool/members.hpp"
#include "pool/reclaim.hpp"

namespace penstock::arena {

bool Quarantine::ends_by_itself() const {
  return !waits_for.empty() && std::all_of(waits_for.begin(), waits_for.end(),
                                           [](const Node& node) { return node.alive; });
}

Quarantine Arena::Impl::quarantine() const {
  Quarantine found;
  if (pool.reclaim().flushes().clock().last_death == 0) return found;
  const auto times = pool.reclaim().flushes().times();
  std::map<std::uint32_t, std::uint64_t> bytes_of;
  const ExtentReader reader(region, geometry, key);
  (void)reader.for_each([&](const ExtentHeader& extent) {
    if (extent.state != ExtentState::quarantined) return;
    ++found.extents;
    found.bytes += extent.bytes;
    for (std::uint32_t node = 0; node < pool.reclaim().flushes().nodes(); ++node) {
      if (times.deaths[node] > extent.born && times.flushes[node] < extent.owner)
        bytes_of[node] += extent.bytes;
    }
  });
  for (const auto& [node, bytes] : bytes_of)
    found.waits_for.push_back({.node = node, .host = {}, .alive = false, .bytes = bytes});
  if (found.waits_for.empty()) return found;
  std::map<std::uint32_t, std::uint64_t> newest;
  for (const auto& process : pool.members().processes()) {
    const auto of_node = [&](const Quarantine::Node& each) { return each.node == process.node; };
    const auto at = std::find_if(found.waits_for.begin(), found.waits_for.end(), of_node);
    if (at == found.waits_for.end()) continue;
    at->alive = at->alive || (process.attached && process.alive);
    if (process.attached_wall_ns < newest[process.node]) continue;
    newest[process.node] = process.attached_wall_ns;
    at->host = process.host;
  }
  return found;
}

}  // namespace penstock::arena
