// The tables of a pool, in one place. Each stands in a header of its own.
#pragma once

#include <functional>
#include <string>

#include "device/device.hpp"
#include "pool/attaching.hpp"
#include "pool/flush_table.hpp"
#include "pool/node_table.hpp"
#include "pool/process_table.hpp"
#include "pool/slot_blocks.hpp"
#include "pool/verdicts.hpp"

namespace penstock::pool {

struct Tables {
  /// `confirm`: called before each line is written under the pool's lock.
  Tables(const device::Device& device, const std::function<void()>& confirm);

  ProcessRecord record(const SlotView& view) const;
  /// As Members::describe().
  std::string describe(std::uint64_t token) const;

  ProcessTable processes;
  AttachingTable attaching;
  NodeTable nodes;
  FlushTable flushes;
  VerdictTable verdicts;
  SlotBlocks blocks;
};

}  // namespace penstock::pool
