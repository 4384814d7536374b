#include "base/service_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <utility>
#include <vector>

#include "base/numa.hpp"

namespace penstock::base {
namespace {

std::vector<int> cpus_of_service(std::optional<int> numa_node) {
  const auto& nodes = host_numa_nodes();
  if (nodes.size() < 2) return {};
  const std::vector<int> usable = own_cpus();
  if (numa_node)
    if (auto near = cpus_near(nodes, usable, numa_node); !near.empty()) return near;
  return cpus_near(nodes, usable, node_of(nodes, {::sched_getcpu()}));
}

/// Threads started meanwhile inherit the mask: the program's signals are for the program's threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Binds only the calling thread. If a CPU has gone offline meanwhile, the inherited mask stays.
void use(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) CPU_SET(static_cast<unsigned>(cpu), &mask);
  (void)::sched_setaffinity(0, sizeof mask, &mask);
}

}  // namespace

std::thread start_service_thread(const char* name, std::function<void()> body,
                                 std::optional<int> numa_node) {
  std::vector<int> cpus = cpus_of_service(numa_node);
  const SignalsBlocked blocked;
  return std::thread([name, body = std::move(body), cpus = std::move(cpus)] {
    pthread_setname_np(pthread_self(), name);
    use(cpus);
    body();
  });
}

}  // namespace penstock::base
