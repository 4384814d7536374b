// The operating system as simulated processes see it. The linker replaces the functions of the same
// names by these (--wrap), so production sources stay unchanged. Outside a simulated process they
// call the real ones, except for random numbers, which are always the same.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "sim/world/world.hpp"

using penstock::sim::Thread;
using penstock::sim::World;

namespace {

World* inside() {
  World* world = World::current();
  return world != nullptr && world->in_fiber() ? world : nullptr;
}

std::uint64_t file_of(int fd) {
  struct stat status {};
  fstat(fd, &status);
  return status.st_ino;
}

constexpr std::uint64_t ns_a_second = 1'000'000'000;

}  // namespace

extern "C" {

int __real_clock_gettime(clockid_t clock, timespec* at);
int __wrap_clock_gettime(clockid_t clock, timespec* at) {
  World* world = inside();
  if (world == nullptr) return __real_clock_gettime(clock, at);
  at->tv_sec = static_cast<time_t>(world->now_ns() / ns_a_second);
  at->tv_nsec = static_cast<long>(world->now_ns() % ns_a_second);
  return 0;
}

int __real_sched_yield();
int __wrap_sched_yield() {
  World* world = inside();
  if (world == nullptr) return __real_sched_yield();
  world->yield();
  return 0;
}

int __real_nanosleep(const timespec* length, timespec* left);
int __wrap_nanosleep(const timespec* length, timespec* left) {
  World* world = inside();
  if (world == nullptr) return __real_nanosleep(length, left);
  world->sleep(static_cast<std::uint64_t>(length->tv_sec) * ns_a_second +
               static_cast<std::uint64_t>(length->tv_nsec));
  return 0;
}

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation) {
  World* world = inside();
  if (world == nullptr) return __real_flock(fd, operation);
  if ((operation & LOCK_UN) != 0) {
    world->unlock_file(file_of(fd));
    return 0;
  }
  if (world->lock_file(file_of(fd))) return 0;
  errno = EWOULDBLOCK;
  return -1;
}

int __real_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal) {
  World* world = inside();
  if (world == nullptr) return __real_kill(pid, signal);
  if (world->runs_here(static_cast<std::uint64_t>(pid))) return 0;
  errno = ESRCH;
  return -1;
}

/// Ends the simulated process; its publishes still leave, as after any exit.
[[noreturn]] void __real__exit(int status);
[[noreturn]] void __wrap__exit(int status) {
  World* world = inside();
  if (world == nullptr) __real__exit(status);
  world->exit_running(status);
  std::abort();  // such a process never runs again
}

/// Also outside a simulated process: the id of a pool that is made there determines where its names
/// lie.
ssize_t __wrap_getrandom(void* to, size_t bytes, unsigned /*flags*/) {
  static penstock::sim::RandomChoices outside(1);
  World* world = inside();
  auto* at = static_cast<std::byte*>(to);
  for (size_t done = 0; done < bytes; done += 8) {
    const std::uint64_t word = world != nullptr ? world->random() : outside.next();
    std::memcpy(at + done, &word, std::min<size_t>(8, bytes - done));
  }
  return static_cast<ssize_t>(bytes);
}

int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                          void* (*start)(void*), void* argument);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                          void* (*start)(void*), void* argument) {
  World* world = inside();
  if (world == nullptr) return __real_pthread_create(thread, attributes, start, argument);
  world->running().core->hand_over();
  Thread* started = world->start_thread([start, argument] { start(argument); });
  *thread = reinterpret_cast<pthread_t>(started);
  return 0;
}

pthread_t __real_pthread_self();
pthread_t __wrap_pthread_self() {
  World* world = inside();
  return world != nullptr ? reinterpret_cast<pthread_t>(&world->running()) : __real_pthread_self();
}

int __real_pthread_setname_np(pthread_t thread, const char* name);
int __wrap_pthread_setname_np(pthread_t thread, const char* name) {
  return inside() != nullptr ? 0 : __real_pthread_setname_np(thread, name);
}

int __real_pthread_join(pthread_t thread, void** result);
int __wrap_pthread_join(pthread_t thread, void** result) {
  World* world = inside();
  if (world == nullptr) return __real_pthread_join(thread, result);
  auto* joined = reinterpret_cast<Thread*>(thread);
  world->wake(*joined);  // its waits end when it looks again
  world->until([joined] { return joined->ended; });
  return 0;
}

int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  World* world = inside();
  if (world == nullptr) return __real_pthread_mutex_lock(mutex);
  int status = pthread_mutex_trylock(mutex);
  for (; status == EBUSY; status = pthread_mutex_trylock(mutex)) world->yield();
  return status;
}

int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (World* world = inside()) world->running().core->hand_over();
  return __real_pthread_mutex_unlock(mutex);
}

/// Never notified: it checks again when the time is over. Virtual time costs nothing.
int __real_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* deadline);
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* deadline) {
  World* world = inside();
  if (world == nullptr) {
    return __real_pthread_cond_clockwait(condition, mutex, clock, deadline);
  }
  const std::uint64_t until = static_cast<std::uint64_t>(deadline->tv_sec) * ns_a_second +
                              static_cast<std::uint64_t>(deadline->tv_nsec);
  __wrap_pthread_mutex_unlock(mutex);
  if (until > world->now_ns()) world->sleep(until - world->now_ns());
  __wrap_pthread_mutex_lock(mutex);
  return world->now_ns() >= until ? ETIMEDOUT : 0;
}

}  // extern "C"

namespace penstock::pool {

// read_proc_stat for simulated processes; see CMakeLists.txt for its name.
std::optional<ProcStat> real_read_proc_stat(std::uint64_t pid) asm(
    "__real__ZN8penstock4pool14read_proc_statEm");
std::optional<ProcStat> simulated_read_proc_stat(std::uint64_t pid) asm(
    "__wrap__ZN8penstock4pool14read_proc_statEm");

std::optional<ProcStat> simulated_read_proc_stat(std::uint64_t pid) {
  World* world = inside();
  if (world == nullptr) return real_read_proc_stat(pid);
  if (!world->runs_here(pid)) return std::nullopt;
  const auto* process = world->process_of(pid);
  ProcStat stat{};
  stat.state = process->stopped ? 'T' : 'R';
  stat.threads = 1;
  stat.start_time = world->identity(*process).start_time;
  return stat;
}

}  // namespace penstock::pool

namespace penstock::base {

std::string real_read_file(const std::string& path) asm(
    "__real__ZN8penstock4base9read_fileERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
std::string simulated_read_file(const std::string& path) asm(
    "__wrap__ZN8penstock4base9read_fileERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");

/// This process has mapped the pools of all simulated processes, and none that they use.
std::string simulated_read_file(const std::string& path) {
  if (inside() != nullptr && path == "/proc/self/maps") return {};
  return real_read_file(path);
}

std::uint32_t real_shared_cpus() asm("__real__ZN8penstock4base11shared_cpusEv");
std::uint32_t simulated_shared_cpus() asm("__wrap__ZN8penstock4base11shared_cpusEv");

/// Where time passes separately for each process, each has a core.
std::uint32_t simulated_shared_cpus() {
  constexpr std::uint32_t enough = 1 << 16;
  const World* world = inside();
  return world != nullptr && world->faults().device_ns != 0 ? enough : real_shared_cpus();
}

}  // namespace penstock::base
