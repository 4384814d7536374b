#include "pool/tables.hpp"

#include "base/format.hpp"

namespace penstock::pool {

Tables::Tables(const device::Device& device, const std::function<void()>& confirm)
    : processes(device.memory(), device.base(), device.superblock()),
      attaching(device.memory(), device.base(), device.superblock()),
      nodes(device.memory(), device.base(), device.superblock()),
      flushes(device.memory(), device.base(), device.superblock().flushes_offset,
              device.superblock().max_nodes, confirm),
      verdicts(device.memory(), device.base(), device.superblock()),
      blocks(device.memory(), device.base(), device.superblock(), processes, confirm) {}

ProcessRecord Tables::record(const SlotView& view) const {
  ProcessRecord found = processes.record(view);
  const auto line = nodes.read(found.node);
  if (line && line->emulated != 0) found.emulated_node = line->emulated - 1;
  return found;
}

std::string Tables::describe(std::uint64_t token) const {
  if (is_attaching(token)) {
    const auto line = attaching.read(attaching_number_of(token));
    if (line && line->generation == generation_of(token)) {
      return fmt::format("a process that is attaching (pid {})", line->pid);
    }
    return "a process that was attaching";
  }
  const auto slot = static_cast<std::uint32_t>(slot_of(token));
  const SlotView view = processes.state(slot);
  if (view.line.generation != generation_of(token)) {
    return fmt::format("a process that is gone (slot {}, generation {})", slot,
                       generation_of(token));
  }
  return pool::describe(record(view));
}

std::string node_text(const ProcessRecord& record) {
  return record.emulated_node ? fmt::format("emulated node {}", *record.emulated_node)
                              : fmt::format("node {}", record.node);
}

std::string describe(const ProcessRecord& record) {
  const std::string who = record.rank >= 0 ? fmt::format("rank {}", record.rank)
                                           : fmt::format("\"{}\"", record.program);
  return fmt::format("{} (pid {} on host {}, {})", who, record.pid, record.host, node_text(record));
}

}  // namespace penstock::pool
