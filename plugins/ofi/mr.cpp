// Memory registration. Local use needs no registration, so a local region is just a handle. A
// region that peers may access is announced in the pool. If it lies in the pool, peers access it
// without this process.
#include "mr.hpp"
#include "device/pool_mappings.hpp"
#include "transport/iov.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/format.hpp"
#include "cntr.hpp"
#include "domain.hpp"
#include "ep.hpp"
#include "lib.hpp"
#include "waiting.hpp"

namespace penstock::ofi {

namespace {

constexpr std::uint64_t remote_access = FI_REMOTE_READ | FI_REMOTE_WRITE;

std::uint32_t access_of(std::uint64_t flags) {
  return ((flags & FI_REMOTE_READ) != 0 ? rma::remote_read : 0u) |
         ((flags & FI_REMOTE_WRITE) != 0 ? rma::remote_write : 0u);
}

}  // namespace

Pieces locate(const Region& region, std::uint64_t address, std::uint64_t bytes) {
  Pieces pieces;
  std::uint64_t skip = address - region.what.base;
  for (const iovec& part : region.parts) {
    if (skip >= part.iov_len) {
      skip -= part.iov_len;
      continue;
    }
    const std::uint64_t length = std::min<std::uint64_t>(part.iov_len - skip, bytes);
    pieces.iov[pieces.count++] = {static_cast<std::byte*>(part.iov_base) + skip, length};
    bytes -= length;
    skip = 0;
    if (bytes == 0) break;
  }
  return pieces;
}

// ---- of a domain -------------------------------------------------------------------------------

Result<void> Regions::add(Region* region) {
  if (region->what.bytes != 0) {
    if (table_ == nullptr) {
      table_ = PENSTOCK_TRY(rma::RegionTable::make(*domain_.session->arena));
      for (Ep* ep : domain_.endpoints) {
        if (auto announced = announce_at(*ep); !announced) return announced;
      }
    }
    if (auto added = table_->add(region->what); !added) return added;
  } else if (by_key_.count(region->what.key) != 0) {
    return penstock::fail(ErrorCode::already_exists,
                          "a memory region with key {:#x} is registered already", region->what.key);
  }
  by_key_.emplace(region->what.key, region);
  return {};
}

void Regions::remove(Region* region) {
  if (by_key_.erase(region->what.key) != 0 && table_ != nullptr) table_->remove(region->what.key);
}

Result<void> Regions::announce_at(Ep& ep) const {
  if (table_ == nullptr || ep.transport() == nullptr) return {};
  return ep.transport()->set_user_word(table_->place());
}

// ---- calls -------------------------------------------------------------------------------------

namespace {

Region& region_of(fid* self) {
  return *static_cast<Region*>(reinterpret_cast<fid_mr*>(self));
}

bool in_use(const Region& region) {
  const auto& endpoints = region.domain->endpoints;
  return std::any_of(endpoints.begin(), endpoints.end(), [&](const Ep* ep) {
    return ep->rma_target.uses(region) || ep->engine.answers().uses(&region);
  });
}

/// Waits until peers have finished the reads and writes that they have begun in the region, so that
/// the user may reuse its memory. False if they do not finish within PENSTOCK_TIMEOUT_MS.
bool finish_use(const Region& region) {
  const auto finished = [&region] {
    GuardAgainstAll guard(*region.domain);
    for (Ep* ep : region.domain->endpoints)
      if (in_use(region)) ep->progress();
    return !in_use(region);
  };
  if (finished()) return true;  // the usual case; setting up a wait is expensive
  base::Waiter waiter = waiter_for("writes into a memory region", 0, *region.domain);
  while (waiter.pause())
    if (finished()) return true;
  return false;
}

int close_region(fid* self) {
  Region& region = region_of(self);
  Domain& domain = *region.domain;
  {
    GuardAgainstAll guard(domain);
    if (region.remote) domain.regions.remove(&region);
    region.remote = false;
  }
  if (!finish_use(region)) return -FI_EBUSY;
  {
    GuardAgainstAll guard(domain);
    if (region.remote_writes != nullptr) region.remote_writes->users.fetch_sub(1);
    delete &region;
  }
  domain.users.fetch_sub(1);
  return 0;
}

int bind_region(fid* self, fid* other, std::uint64_t flags) {
  if (other->fclass == FI_CLASS_EP) return 0;  // any endpoint of the domain can access it
  if (other->fclass != FI_CLASS_CNTR) return -FI_EINVAL;
  if (flags != FI_REMOTE_WRITE) return -FI_EBADFLAGS;
  Region& region = region_of(self);
  GuardAgainstAll guard(*region.domain);
  if (region.remote_writes != nullptr) return -FI_EBUSY;
  region.remote_writes = static_cast<Cntr*>(reinterpret_cast<fid_cntr*>(other));
  region.remote_writes->of_regions.store(true);
  region.remote_writes->users.fetch_add(1);
  return 0;
}

int control_region(fid*, int command, void*) {
  switch (command) {
    case FI_ENABLE:
    case FI_REFRESH:
      return 0;
    default:
      return -FI_ENOSYS;
  }
}

fi_ops region_ops = {
    .size = sizeof(fi_ops),
    .close = close_region,
    .bind = bind_region,
    .control = control_region,
    .ops_open = no_ops_open,
};

struct Wanted {
  const iovec* iov;
  std::size_t count;
  std::uint64_t access, offset, key;
};

int describe(const Wanted& wanted, Domain& domain, Region& region) {
  region.parts.assign(wanted.iov, wanted.iov + wanted.count);
  rma::Region& what = region.what;
  what.access = access_of(wanted.access);
  if (domain.rma_events) what.access |= rma::wants_notice;
  what.bytes = transport::iov_bytes(region.parts.data(), region.parts.size());
  const bool provider_keys = (domain.mr_mode & FI_MR_PROV_KEY) != 0;
  what.key = provider_keys ? domain.next_key.fetch_add(1) : wanted.key;
  if (provider_keys) what.access |= rma::lasting_key;
  const bool by_address = (domain.mr_mode & FI_MR_VIRT_ADDR) != 0 && wanted.count > 0;
  what.base = by_address ? reinterpret_cast<std::uintptr_t>(wanted.iov[0].iov_base) : wanted.offset;
  if (!region.remote) return 0;
  if (wanted.count == 1 && what.bytes != 0 && !domain.unaware_users) {
    device::PoolMappings& mappings = domain.session->pool->mappings();
    mappings.refresh();  // the user may have mapped the pool since the last call
    what.offset = mappings.offset_of(wanted.iov[0].iov_base, what.bytes).value_or(rma::not_in_pool);
  }
  if (auto added = domain.regions.add(&region); !added) {
    return added.error().code == ErrorCode::already_exists ? -FI_ENOKEY : report(added.error());
  }
  return 0;
}

int make_region(fid* self, const Wanted& wanted, void* context, fid_mr** result) {
  if (self->fclass != FI_CLASS_DOMAIN || wanted.count > transport::max_iov) return -FI_EINVAL;
  auto& domain = *static_cast<Domain*>(reinterpret_cast<fid_domain*>(self));
  return guarded([&]() -> int {
    auto region = std::make_unique<Region>();
    region->domain = &domain;
    region->remote = (wanted.access & remote_access) != 0;
    GuardAgainstAll guard(domain);
    if (const int failed = describe(wanted, domain, *region)) return failed;
    domain.users.fetch_add(1);
    region->fid = {FI_CLASS_MR, context, &region_ops};
    region->mem_desc = region.get();
    region->key = region->what.key;
    *result = region.release();
    return 0;
  });
}

int reg(fid* self, const void* buffer, std::size_t bytes, std::uint64_t access,
        std::uint64_t offset, std::uint64_t key, std::uint64_t, fid_mr** result, void* context) {
  const iovec iov{const_cast<void*>(buffer), bytes};
  return make_region(self, {&iov, 1, access, offset, key}, context, result);
}

int regv(fid* self, const iovec* iov, std::size_t count, std::uint64_t access, std::uint64_t offset,
         std::uint64_t key, std::uint64_t, fid_mr** result, void* context) {
  return make_region(self, {iov, count, access, offset, key}, context, result);
}

int regattr(fid* self, const fi_mr_attr* attr, std::uint64_t, fid_mr** result) {
  return make_region(
      self, {attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key},
      attr->context, result);
}

fi_ops_mr region_make_ops = {
    .size = sizeof(fi_ops_mr), .reg = reg, .regv = regv, .regattr = regattr};

}  // namespace

fi_ops_mr* mr_ops() {
  return &region_make_ops;
}

}  // namespace penstock::ofi
