// Memory registration for local use. All of a process's memory can be sent from and received into
// as it is, so a region is a handle with a key and nothing more; remote access is not offered.
#include <rdma/fi_domain.h>

#include "domain.hpp"
#include "lib.hpp"

namespace penstock::ofi {

namespace {

constexpr std::uint64_t remote_access = FI_REMOTE_READ | FI_REMOTE_WRITE;

struct Region : fid_mr {
  Domain* domain = nullptr;
  bool enabled = true;
};

int close_region(fid* self) {
  auto* region = static_cast<Region*>(reinterpret_cast<fid_mr*>(self));
  region->domain->users.fetch_sub(1);
  delete region;
  return 0;
}

int bind_region(fid*, fid* other, std::uint64_t) {
  const std::size_t kind = other->fclass;
  return kind == FI_CLASS_EP || kind == FI_CLASS_CNTR ? 0 : -FI_EINVAL;
}

int control_region(fid* self, int command, void*) {
  auto* region = static_cast<Region*>(reinterpret_cast<fid_mr*>(self));
  switch (command) {
    case FI_ENABLE:
      region->enabled = true;
      return 0;
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

int make_region(fid* self, std::uint64_t access, std::uint64_t requested_key, void* context,
                fid_mr** result) {
  if ((access & remote_access) != 0) return -FI_EOPNOTSUPP;
  auto* region = new (std::nothrow) Region;
  if (region == nullptr) return -FI_ENOMEM;
  region->domain = static_cast<Domain*>(reinterpret_cast<fid_domain*>(self));
  region->domain->users.fetch_add(1);
  region->fid = {FI_CLASS_MR, context, &region_ops};
  region->mem_desc = region;
  region->key = requested_key;
  *result = region;
  return 0;
}

int reg(fid* self, const void*, std::size_t, std::uint64_t access, std::uint64_t,
        std::uint64_t requested_key, std::uint64_t, fid_mr** result, void* context) {
  return make_region(self, access, requested_key, context, result);
}

int regv(fid* self, const iovec*, std::size_t, std::uint64_t access, std::uint64_t,
         std::uint64_t requested_key, std::uint64_t, fid_mr** result, void* context) {
  return make_region(self, access, requested_key, context, result);
}

int regattr(fid* self, const fi_mr_attr* attr, std::uint64_t, fid_mr** result) {
  return make_region(self, attr->access, attr->requested_key, attr->context, result);
}

fi_ops_mr region_make_ops = {
    .size = sizeof(fi_ops_mr), .reg = reg, .regv = regv, .regattr = regattr};

}  // namespace

fi_ops_mr* mr_ops() {
  return &region_make_ops;
}

}  // namespace penstock::ofi
