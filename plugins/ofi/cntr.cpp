#include "cntr.hpp"

#include <rdma/fi_errno.h>

#include "ep.hpp"
#include "lib.hpp"
#include "waiting.hpp"

namespace penstock::ofi {

void Cntr::progress() {
  {
    Guard guard(*domain);
    for (Ep* ep : of_regions.load() ? domain->endpoints : endpoints) ep->progress();
  }
  start_triggered(*domain);
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
  const std::uint64_t errors = cntr.errors.load();
  cntr.reported_errors.store(errors);
  return errors;
}

int add(fid_cntr* self, std::uint64_t amount) {
  Cntr& cntr = cntr_of(self);
  {
    Guard guard(*cntr.domain);
    cntr.value.fetch_add(amount);
  }
  start_triggered(*cntr.domain);
  return 0;
}

int set(fid_cntr* self, std::uint64_t value) {
  Cntr& cntr = cntr_of(self);
  {
    Guard guard(*cntr.domain);
    cntr.value.store(value);
  }
  start_triggered(*cntr.domain);
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

/// Polls once: 0 if the threshold is reached, 1 if not, -FI_EAVAIL for an error that was not
/// reported yet. An error from before the wait counts too, since there may be no later one.
int look(Cntr& cntr, std::uint64_t threshold) {
  cntr.progress();
  if (cntr.value.load() >= threshold) return 0;
  const std::uint64_t errors = cntr.errors.load();
  return cntr.reported_errors.exchange(errors) != errors ? -FI_EAVAIL : 1;
}

int wait(fid_cntr* self, std::uint64_t threshold, int timeout_ms) {
  Cntr& cntr = cntr_of(self);
  int found = look(cntr, threshold);
  if (found == 1 && timeout_ms == 0) return -FI_ETIMEDOUT;
  if (found != 1) return found;
  base::Waiter waiter = waiter_for("a counter", timeout_ms, *cntr.domain);
  while (found == 1) {
    const bool late = !waiter.pause();
    found = look(cntr, threshold);
    if (found == 1 && late) return -FI_ETIMEDOUT;
  }
  return found;
}

int control_cntr(fid* self, int command, void* argument) {
  return control_wait_object(cntr_of(reinterpret_cast<fid_cntr*>(self)).wait_object, command,
                             argument);
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
    .control = control_cntr,
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
    if (attr->events != FI_CNTR_EVENTS_COMP || attr->flags != 0) return -FI_ENOSYS;
    if (!can_wait_by(attr->wait_obj, "counter")) return -FI_ENOSYS;
  }
  return guarded([&]() -> int {
    auto* cntr = new Cntr;
    cntr->domain = static_cast<Domain*>(self);
    cntr->domain->users.fetch_add(1);
    cntr->fid = {FI_CLASS_CNTR, context, &cntr_fid_ops};
    cntr->ops = &cntr_ops;
    if (attr != nullptr) cntr->wait_object = attr->wait_obj;
    *result = cntr;
    return 0;
  });
}

}  // namespace penstock::ofi
