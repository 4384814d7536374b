#include <rdma/fi_errno.h>

#include <atomic>
#include <mutex>
#include <set>

#include "base/log.hpp"
#include "info.hpp"
#include "lib.hpp"
#include "session/session.hpp"

namespace penstock::ofi {

namespace {

/// Refuses because the named pool cannot be used. Logs that once, however often MPI asks.
int no_pool(const std::string& why) {
  static std::atomic<bool> said{false};
  plugin::end_process_if_required(why);
  if (!said.exchange(true)) base::log(base::Level::error, "{}", why);
  return -FI_ENODATA;
}

/// Refuses, and logs each reason once: an MPI asks many times.
int refused(const std::string& why) {
  static std::mutex mutex;
  static std::set<std::string> logged;
  const std::lock_guard guard(mutex);
  if (logged.insert(why).second) base::log(base::Level::info, "fi_getinfo: not offered: {}", why);
  return -FI_ENODATA;
}

}  // namespace

int getinfo(std::uint32_t version, const char* node, const char*, std::uint64_t flags,
            const fi_info* hints, fi_info** result) {
  return guarded([&]() -> int {
    auto pool = plugin::look_at_pool();
    if (!pool) return no_pool(pool.error().message);
    if (!pool->configured) {
      plugin::end_process_if_required(
          "no pool is named: set PENSTOCK_POOL to the SPEC that 'penstock pool create' was given");
      return refused("no pool is named: PENSTOCK_POOL is not set");
    }
    // The application exchanges addresses; host names cannot name a pool's slots.
    if (node != nullptr && (flags & FI_SOURCE) == 0) return refused("peers have no host names");
    const Offer offer{pool->spec, pool->id};
    if (auto why = refusal(version, hints, offer)) return refused(*why);
    fi_info* info = allocate_info();
    if (info == nullptr) return -FI_ENOMEM;
    if (!fill_info(info, version, hints, offer)) {
      free_info(info);
      return -FI_ENOMEM;
    }
    base::log(base::Level::debug, "fi_getinfo: offered: pool {}, {}", pool->spec,
              fi_tostr(&info->caps, FI_TYPE_CAPS));
    *result = info;
    return 0;
  });
}

}  // namespace penstock::ofi
