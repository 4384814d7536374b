#include "cntr.hpp"

#include <rdma/fi_errno.h>

#include "base/clock.hpp"
#include "ep.hpp"
#include "lib.hpp"

namespace penstock::ofi {

void Cntr::progress() {
  Guard guard(*domain);
  for (Ep* ep : endpoints) ep->progress();
}

namespace {

Cntr& cntr_of(fid_cntr* self) {
  return *static_cast<Cntr*>(self);
}

std::uint64_t read(fid_cntr* self) {
  Cntr& cntr = cntr_of(self);
  cntr.progress();
  return cntr.value.load();
}

std::uint64_t readerr(fid_cntr* self) {
  Cntr& cntr = cntr_of(self);
  cntr.progress();
  return cntr.errors.load();
}

int add(fid_cntr* self, std::uint64_t amount) {
  Cntr& cntr = cntr_of(self);
  Guard guard(*cntr.domain);
  cntr.value.fetch_add(amount);
  return 0;
}

int set(fid_cntr* self, std::uint64_t value) {
  Cntr& cntr = cntr_of(self);
  Guard guard(*cntr.domain);
  cntr.value.store(value);
  return 0;
}

int adderr(fid_cntr* self, std::uint64_t amount) {
  cntr_of(self).errors.fetch_add(amount);
  return 0;
}

int seterr(fid_cntr* self, std::uint64_t value) {
  cntr_of(self).errors.store(value);
  return 0;
}

int wait(fid_cntr* self, std::uint64_t threshold, int timeout_ms) {
  Cntr& cntr = cntr_of(self);
  const std::uint64_t errors_before = cntr.errors.load();
  const std::uint64_t start = base::now_ns();
  for (;;) {
    cntr.progress();
    if (cntr.value.load() >= threshold) return 0;
    if (cntr.errors.load() != errors_before) return -FI_EAVAIL;
    if (timeout_ms >= 0 &&
        base::now_ns() - start >= static_cast<std::uint64_t>(timeout_ms) * 1'000'000) {
      return -FI_ETIMEDOUT;
    }
    cntr.backoff.idle();
  }
}

int close_cntr(fid* self) {
  Cntr& cntr = cntr_of(reinterpret_cast<fid_cntr*>(self));
  if (cntr.users.load() != 0) return -FI_EBUSY;
  cntr.domain->users.fetch_sub(1);
  delete &cntr;
  return 0;
}

fi_ops cntr_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_cntr,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
};

fi_ops_cntr cntr_ops = {
    .size = sizeof(fi_ops_cntr),
    .read = read,
    .readerr = readerr,
    .add = add,
    .set = set,
    .wait = wait,
    .adderr = adderr,
    .seterr = seterr,
};

}  // namespace

int open_cntr(fid_domain* self, fi_cntr_attr* attr, fid_cntr** result, void* context) {
  if (attr != nullptr) {
    const fi_wait_obj wait_object = attr->wait_obj;
    if (attr->events != FI_CNTR_EVENTS_COMP || attr->flags != 0) return -FI_ENOSYS;
    if (wait_object != FI_WAIT_NONE && wait_object != FI_WAIT_UNSPEC &&
        wait_object != FI_WAIT_YIELD) {
      return -FI_ENOSYS;
    }
  }
  return guarded([&]() -> int {
    auto* cntr = new Cntr;
    cntr->domain = static_cast<Domain*>(self);
    cntr->domain->users.fetch_add(1);
    cntr->fid = {FI_CLASS_CNTR, context, &cntr_fid_ops};
    cntr->ops = &cntr_ops;
    cntr->backoff.set(wait_policy(*cntr->domain->session));
    *result = cntr;
    return 0;
  });
}

}  // namespace penstock::ofi
