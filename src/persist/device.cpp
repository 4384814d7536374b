#include "persist/device.hpp"

#include "base/format.hpp"

namespace penstock::persist {

// Software mode's operations are right in all modes, and write back to the device what they
// publish.
Result<Device> Device::of(const pool::Pool& pool) {
  const bool leaves_in_caches = pool.info().mode == coherence::Mode::hardware;
  if (!leaves_in_caches || pool.device().durability() != device::Durability::device)
    return Device(pool, pool.memory());
  const auto sends = coherence::bind(coherence::Mode::software);
  if (sends) return Device(pool, *sends);
  return fail(ErrorCode::unavailable,
              "pool {} is in hardware mode, and what is written to it can be kept only by a CPU "
              "that writes single lines back: {}",
              pool.info().spec, sends.error().message);
}

}  // namespace penstock::persist
