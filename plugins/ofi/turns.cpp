#include "turns.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

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

Turns::Turns(bool always) : always_(always || !kernel_has_it()), made_by_(::getpid()) {}

/// To register takes the kernel milliseconds, so it is done when it is needed.
bool Turns::fence_everywhere() {
  registered_ = registered_ || membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return registered_ && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

bool Turns::is_forked() const {
  return ::getpid() != made_by_;
}

void Turns::enter_alone() {
  if (is_forked()) return;
  mutex_.lock();
  wanted_.store(true, std::memory_order_seq_cst);
  if (!always_.load(std::memory_order_relaxed) && !fence_everywhere()) {
    // It has said that it can, and cannot. What a frequent call has stored is seen by then.
    always_.store(true, std::memory_order_seq_cst);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  while (inside_.load(std::memory_order_acquire)) std::this_thread::yield();
}

void Turns::leave_alone() {
  if (is_forked()) return;
  wanted_.store(false, std::memory_order_release);
  mutex_.unlock();
}

}  // namespace penstock::ofi
