#include <rdma/fi_eq.h>

#include <mutex>

#include "domain.hpp"
#include "eq.hpp"
#include "lib.hpp"
#include "waiting.hpp"

namespace penstock::ofi {

int no_bind(fid*, fid*, std::uint64_t) {
  return -FI_ENOSYS;
}
int no_control(fid*, int, void*) {
  return -FI_ENOSYS;
}
int no_ops_open(fid*, const char*, std::uint64_t, void**, void*) {
  return -FI_ENOSYS;
}

namespace {

int close_fabric(fid* self) {
  auto* fabric = static_cast<Fabric*>(reinterpret_cast<fid_fabric*>(self));
  if (fabric->users.load() != 0) return -FI_EBUSY;
  delete fabric;
  return 0;
}

int no_passive_endpoint(fid_fabric*, fi_info*, fid_pep**, void*) {
  return -FI_ENOSYS;
}
int no_wait_set(fid_fabric*, fi_wait_attr*, fid_wait**) {
  (void)can_wait_by(FI_WAIT_SET, "wait set");  // logs why it is refused
  return -FI_ENOSYS;
}

/// fi_trywait. A thread must not sleep on a completion queue or counter, since nothing would wake
/// it; an event queue with a file descriptor would.
int may_sleep(fid* object) {
  switch (object->fclass) {
    case FI_CLASS_CQ:
    case FI_CLASS_CNTR:
      return -FI_EAGAIN;
    case FI_CLASS_EQ: {
      auto& eq = *static_cast<Eq*>(reinterpret_cast<fid_eq*>(object));
      const std::lock_guard<std::mutex> guard(eq.mutex);
      return eq.wake_fd.get() >= 0 && eq.events.empty() ? 0 : -FI_EAGAIN;
    }
    default:
      return -FI_EINVAL;
  }
}

int trywait(fid_fabric*, fid** objects, int count) {
  for (int i = 0; i < count; ++i) {
    if (const int no = may_sleep(objects[i])) return no;
  }
  return 0;
}

fi_ops fabric_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_fabric,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
};

fi_ops_fabric fabric_ops = {
    .size = sizeof(fi_ops_fabric),
    .domain = open_domain,
    .passive_ep = no_passive_endpoint,
    .eq_open = open_eq,
    .wait_open = no_wait_set,
    .trywait = trywait,
};

}  // namespace

int open_fabric(fi_fabric_attr* attr, fid_fabric** result, void* context) {
  auto* fabric = new (std::nothrow) Fabric;
  if (fabric == nullptr) return -FI_ENOMEM;
  fabric->fid = {FI_CLASS_FABRIC, context, &fabric_fid_ops};
  fabric->ops = &fabric_ops;
  fabric->api_version = attr != nullptr ? attr->api_version : 0;
  *result = fabric;
  return 0;
}

}  // namespace penstock::ofi
