#include "waiting.hpp"

#include <rdma/fi_errno.h>

#include "base/log.hpp"
#include "domain.hpp"

namespace penstock::ofi {

base::Waiter waiter_for(const char* what, int timeout_ms, const Domain& domain) {
  constexpr std::uint64_t for_ever = ~std::uint64_t{0};
  const std::uint64_t limit_ns =
      timeout_ms < 0 ? for_ever : static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  return {what, limit_ns, {}, wait_policy(*domain.session)};
}

bool can_wait_by(fi_wait_obj object, const char* of_what) {
  if (object == FI_WAIT_NONE || object == FI_WAIT_UNSPEC || object == FI_WAIT_YIELD) return true;
  base::log(
      base::Level::info,
      "a {} with wait object {} cannot be had: a memory pool raises no interrupt that would "
      "wake a file descriptor or a condition; FI_WAIT_UNSPEC and FI_WAIT_YIELD wait by polling",
      of_what, static_cast<int>(object));
  return false;
}

int control_wait_object(fi_wait_obj object, int command, void* argument) {
  switch (command) {
    case FI_GETWAITOBJ:
      *static_cast<fi_wait_obj*>(argument) = object;
      return 0;
    case FI_GETWAIT:
      return -FI_ENODATA;  // no system call can wait on a pool
    default:
      return -FI_ENOSYS;
  }
}

}  // namespace penstock::ofi
