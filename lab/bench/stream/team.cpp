#include "bench/stream/team.hpp"

#include <sched.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <memory>

#include "bench/supervisor.hpp"

namespace penstock::bench::stream {

namespace {

/// Pins the calling thread.
void pin_to(const std::vector<int>& cpus) {
  int size = 1;
  for (const int cpu : cpus) size = cpu >= size ? cpu + 1 : size;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(size),
                                                             [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(size);
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  sched_setaffinity(0, bytes, set.get());
}

}  // namespace

#ifdef _OPENMP

bool has_openmp() {
  return true;
}

void run_team(unsigned threads, const std::function<void(unsigned index)>& work) {
#pragma omp parallel num_threads(threads)
  work(static_cast<unsigned>(omp_get_thread_num()));
}

#else

bool has_openmp() {
  return false;
}

void run_team(unsigned, const std::function<void(unsigned index)>& work) {
  work(0);
}

#endif

PinnedTeam::PinnedTeam(const std::vector<int>& cpus) : before_(allowed_cpus()) {
  run_team(static_cast<unsigned>(cpus.size()), [&](unsigned index) { pin_to({cpus[index]}); });
}

PinnedTeam::~PinnedTeam() {
  pin_to(before_);
}

}  // namespace penstock::bench::stream
