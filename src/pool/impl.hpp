// The objects of an attachment. Each stands on those before it.
#pragma once

#include <utility>

#include "device/device.hpp"
#include "device/pool_mappings.hpp"
#include "pool/chores.hpp"
#include "pool/layout.hpp"
#include "pool/liveness.hpp"
#include "pool/members.hpp"
#include "pool/own_slot.hpp"
#include "pool/pool_lock.hpp"
#include "pool/reclaim.hpp"
#include "pool/tables.hpp"

namespace penstock::pool {

struct Pool::Impl {
  Impl(device::Device opened, const Caller& self, const AttachOptions& options,
       std::uint64_t lease_ns)
      : device(std::move(opened)),
        info(info_of(device.superblock(), device.spec())),
        tables(device, [this] { own.confirm(); }),
        liveness(tables.processes, tables.attaching, self.host, self.process, lease_ns),
        own(device, tables, liveness, self, options) {
    info.owner = device.owner();
  }
  Result<void> join();

  const device::Device device;
  Info info;
  const Tables tables;
  Liveness liveness;
  OwnSlot own;
  Members members{device, tables, liveness, own};
  device::PoolMappings mappings{device.base(), device.bytes(), &members};
  PoolLock lock{device, tables, liveness, own};
  Reclaim reclaim{device, tables, liveness, own, members, lock};
  Chores chores;
};

}  // namespace penstock::pool
