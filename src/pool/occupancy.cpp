#include "pool/occupancy.hpp"

#include "base/format.hpp"
#include "base/wait.hpp"
#include "device/mapping.hpp"
#include "device/superblock.hpp"
#include "pool/lease.hpp"
#include "pool/liveness.hpp"

namespace penstock::pool {

namespace {

Result<std::optional<std::string>> watch(const ProcessTable& processes, Liveness& liveness) {
  LifeWatch life(processes, liveness);
  base::Waiter waiter("the heartbeats of a pool", certainty_limit_ns(liveness.lease_ns()), {},
                      base::WaitPolicy{.spins = 0, .yields = 0, .sleep_ns = 5'000'000});
  for (;;) {
    bool undecided = false;
    for (const SlotView& view : processes.used()) {
      const auto verdict = life.look(view);
      if (verdict == LifeWatch::Verdict::alive) {
        const ProcessRecord record = processes.record(view);
        return fmt::format("process {} of host {} is attached", record.pid, record.host);
      }
      undecided = undecided || verdict == LifeWatch::Verdict::undecided;
    }
    if (!undecided) return std::nullopt;
    PENSTOCK_TRY(waiter.pause());
  }
}

}  // namespace

Result<std::optional<std::string>> living_occupant(const std::string& spec) {
  auto lease_ns = PENSTOCK_TRY(lease_from_environment());
  auto host = PENSTOCK_TRY(this_host());
  auto process = PENSTOCK_TRY(this_process());
  auto parts = PENSTOCK_TRY(device::open_parts(spec, device::Access::read));
  process.pool_file = device::pool_file_of(parts);
  auto superblock = PENSTOCK_TRY(check_superblocks(parts, spec));
  auto mapping = PENSTOCK_TRY(device::map_pool(parts, superblock, device::Access::read));
  auto view = PENSTOCK_TRY(coherence::view(static_cast<coherence::Mode>(superblock.mode),
                                           {.base = mapping.base(),
                                            .bytes = mapping.bytes(),
                                            .path = parts.front().part.path,
                                            .pool_id = superblock.pool_id,
                                            .observer = true}));

  const ProcessTable processes(view.memory, view.base, superblock);
  const AttachingTable attaching(view.memory, view.base, superblock);
  Liveness liveness(processes, attaching, host, process, lease_ns);
  return watch(processes, liveness);
}

}  // namespace penstock::pool
