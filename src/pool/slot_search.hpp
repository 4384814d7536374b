// How an attaching process gets its slot (docs/protocols/pool.md): from a block of its node, under
// the host's lock alone; otherwise, under the pool's lock, from a block that its node takes.
//
// Unused slots are taken first, then those released longest ago, and only then those of dead
// processes: so statistics stay readable, and the arena can free the objects of the dead. Reusing a
// dead owner's slot before that breaks nothing: a token contains the slot's generation, so an
// object with the old token is still known to have a dead owner.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "device/device.hpp"
#include "pool/tables.hpp"

namespace penstock::pool {

class OwnSlot;
class PoolLock;
class Reclaim;

/// Lives only while its process attaches.
class SlotSearch {
 public:
  SlotSearch(const device::Device& device, const Tables& tables, Liveness& liveness, OwnSlot& own,
             PoolLock& lock, Reclaim& reclaim)
      : device_(device),
        tables_(tables),
        liveness_(liveness),
        own_(own),
        lock_(lock),
        reclaim_(reclaim) {}

  /// Takes a slot for the process of `visit`, under the host's lock. Errors: no_slots, deadline.
  Result<void> take(const std::shared_ptr<Visit>& visit);

 private:
  /// Kinds of slots that a process may take, in order of preference.
  enum class SlotUse : std::uint8_t { free, declared_dead, dead };
  std::optional<SlotView> choose_unlocked();
  std::optional<SlotView> choose_locked();
  std::optional<SlotView> search(SlotUse use, bool whole_blocks);
  std::optional<SlotView> best_of(const BlockView& block, SlotUse use);
  bool is_usable(const SlotView& view, SlotUse use);
  bool is_free(const SlotView& view) const;
  bool may_resume(const SlotView& view) const;
  void enter_home(std::uint32_t number, bool reuse) const;
  void take_block(BlockView& block);

  const device::Device& device_;
  const Tables& tables_;
  Liveness& liveness_;
  OwnSlot& own_;
  PoolLock& lock_;
  Reclaim& reclaim_;
};

}  // namespace penstock::pool
