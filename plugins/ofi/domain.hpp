// A domain: one libfabric user's share of a session. Serializes calls if the user asked for more
// thread safety than FI_THREAD_DOMAIN.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/wait.hpp"
#include "mr.hpp"
#include "session/session.hpp"
#include "trigger.hpp"
#include "turns.hpp"

namespace penstock::ofi {

struct Fabric : fid_fabric {
  std::atomic<int> users{0};
};

struct Domain : fid_domain {
  Domain(bool shared, int (*one_thread_promised)())
      : serialize(shared), turns(shared, one_thread_promised) {}

  Fabric* fabric = nullptr;
  std::shared_ptr<plugin::Session> session;
  std::atomic<int> users{0};
  const bool serialize;  ///< several threads may call concurrently
  Turns turns;
  std::uint32_t api_version = 0;
  int mr_mode = 0;          ///< the chosen FI_MR_... bits, with FI_MR_BASIC split up
  bool rma_events = false;  ///< peers report their accesses to memory here
  /// The program has pool memory without knowing it, and reads it through caches that may be stale.
  /// So peers write to it through this process, never directly.
  bool unaware_users = false;
  std::atomic<std::uint64_t> next_key{1};
  std::vector<Ep*> endpoints;
  Regions regions{*this};
  Triggers triggers;
};

/// Held during a frequent call. With FI_THREAD_DOMAIN the user promises that such calls do not
/// overlap.
class Guard {
 public:
  explicit Guard(Domain& domain) : turns_(domain.turns), locked_(turns_.enter()) {}
  ~Guard() { turns_.leave(locked_); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Turns& turns_;
  bool locked_;
};

/// Held during a rare call, which may overlap any other call whatever the user has promised.
class GuardAgainstAll {
 public:
  explicit GuardAgainstAll(Domain& domain) : turns_(domain.turns) { turns_.enter_alone(); }
  ~GuardAgainstAll() { turns_.leave_alone(); }
  GuardAgainstAll(const GuardAgainstAll&) = delete;
  GuardAgainstAll& operator=(const GuardAgainstAll&) = delete;

 private:
  Turns& turns_;
};

/// Starts triggered operations that are due. To be called after progress and after a counter was
/// set, without the guard.
inline void start_triggered(Domain& domain) {
  if (domain.triggers.any()) [[unlikely]]
    domain.triggers.start_due(domain);
}

/// The policy that decides how long to spin, by the number of this host's processes that wait for
/// each other.
base::WaitPolicy wait_policy(const plugin::Session& session);

/// Number of domains that this process has opened so far.
unsigned domains_opened();

int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context);
int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context);
int open_av(fid_domain* domain, fi_av_attr* attr, fid_av** av, void* context);
int open_cq(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context);
int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context);
int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** ep, void* context);
int open_eq(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context);
int open_poll(fid_domain* domain, fi_poll_attr* attr, fid_poll** poll);
fi_ops_mr* mr_ops();

/// Operation-table entries that we do not support.
int no_bind(fid* self, fid* other, std::uint64_t flags);
int no_control(fid* self, int command, void* argument);
int no_ops_open(fid* self, const char* name, std::uint64_t flags, void** ops, void* context);

}  // namespace penstock::ofi
