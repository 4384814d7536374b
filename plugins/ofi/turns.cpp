#include "turns.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/log.hpp"

namespace penstock::ofi {

namespace {

long membarrier(int command) {
  return ::syscall(SYS_membarrier, command, 0, 0);
}

bool kernel_has_it() {
  const long commands = membarrier(MEMBARRIER_CMD_QUERY);
  return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
}

}  // namespace

Turns::Turns(bool always, int (*one_promised)())
    : one_promised_(one_promised), shared_(always || !kernel_has_it()), wanted_(shared_.load()) {}

bool Turns::enter_locked() {
  if (is_forked()) return false;
  std::uintptr_t no_owner = 0;
  if (!shared() && owner_.compare_exchange_strong(no_owner, self())) return enter();
  if (!shared() && owner_.load() != self()) share();
  mutex_.lock();
  return true;
}

/// From now on the first thread takes the mutex too. Threads that meet may damage the MPI's own
/// state before they meet here, so where one thread was promised the second one is named at once.
void Turns::share() {
  const bool meets = inside_.load(std::memory_order_relaxed);
  const bool broken = one_promised_ != nullptr && one_promised_() != 0;
  enter_alone();
  if ((broken || meets) && !shared())
    base::log(base::Level::warn,
              "a second thread calls MPI, and the program has not asked for it: where two threads "
              "are in MPI at once, they take turns in Penstock, but the MPI's own state may be "
              "damaged; ask for MPI_THREAD_MULTIPLE in MPI_Init_thread");
  shared_.store(true, std::memory_order_relaxed);
  leave_alone();
}

/// To register takes the kernel milliseconds, so it is done when it is needed.
bool Turns::fence_everywhere() {
  registered_ = registered_ || membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return registered_ && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

void Turns::enter_alone() {
  if (is_forked()) return;
  mutex_.lock();
  wanted_.store(true, std::memory_order_seq_cst);
  if (!shared() && !fence_everywhere()) {
    // The kernel offered the fence and then refused it. After this pause all see the stores of
    // frequent calls.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    shared_.store(true, std::memory_order_relaxed);
  }
  while (inside_.load(std::memory_order_acquire)) std::this_thread::yield();
}

void Turns::leave_alone() {
  if (is_forked()) return;
  wanted_.store(shared(), std::memory_order_release);
  mutex_.unlock();
}

}  // namespace penstock::ofi
