#include "capi/handle.hpp"

namespace penstock::capi {

namespace {

constexpr std::uint32_t closed = 1u << 31, cancelled = 1u << 30, alone = 1u << 29;  // marks
constexpr std::uint32_t one_call = 1, calls = alone - 1;

struct Interrupt {
  int (*look)(void* user) = nullptr;
  void* user = nullptr;
  bool looks = false;
};
thread_local Interrupt interrupt;

}  // namespace

void Handle::close(Handle* handle) noexcept {
  if (handle == nullptr || !handle->origin_.here()) return;
  const std::uint32_t before =
      handle->state_.fetch_or(closed | cancelled, std::memory_order_acq_rel);
  if ((before & closed) != 0 || (before & calls) != 0) return;  // the last call destroys it
  handle->end();
  delete handle;
}

void Handle::cancel() noexcept {
  state_.fetch_or(cancelled, std::memory_order_relaxed);
}

bool Handle::close_if_unused() {
  std::uint32_t idle = state_.load(std::memory_order_relaxed) & cancelled;
  return state_.compare_exchange_strong(idle, closed | cancelled, std::memory_order_acq_rel);
}

Result<void> Handle::enter(const char* noun, Sharing sharing) const {
  if (!origin_.here())
    return fail(ErrorCode::invalid_argument,
                "the {} belongs to the process that this one was forked from: a child must attach "
                "to the pool and open what it needs itself",
                noun);
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  for (;;) {
    if ((state & closed) != 0) return fail(ErrorCode::invalid_argument, "the {} is closed", noun);
    const bool used = (state & calls) != 0;
    if ((state & alone) != 0 || (used && sharing == Sharing::alone))
      return fail(ErrorCode::invalid_argument,
                  "another thread is in a call of this {}: each thread needs a handle of its own",
                  noun);
    const std::uint32_t entered =
        (state + one_call) | (sharing == Sharing::alone ? alone : std::uint32_t{0});
    if (state_.compare_exchange_weak(state, entered, std::memory_order_acquire)) return {};
  }
}

void Handle::leave() const noexcept {
  // a call that is alone removes its mark: there is no other
  std::uint32_t state = state_.load(std::memory_order_relaxed), left = 0;
  do {
    left = (state - one_call) & ~alone;
  } while (!state_.compare_exchange_weak(state, left, std::memory_order_acq_rel));
  if ((left & closed) == 0 || (left & calls) != 0) return;
  auto* const last = const_cast<Handle*>(this);
  last->end();
  delete last;
}

Result<void> Handle::may_wait(const char* noun) const {
  if ((state_.load(std::memory_order_relaxed) & cancelled) == 0) return {};
  return fail(ErrorCode::unavailable, "the {} was closed while a thread waited in it", noun);
}

Result<void> check_interrupt() {
  if (interrupt.look == nullptr || interrupt.looks) return {};
  interrupt.looks = true;
  const int ends = interrupt.look(interrupt.user);
  interrupt.looks = false;
  if (ends == 0) return {};
  return fail(ErrorCode::unavailable, "the wait was interrupted");
}

}  // namespace penstock::capi

extern "C" void penstock_interrupt_by(int (*look)(void* user), void* user) {
  penstock::capi::interrupt.look = look;
  penstock::capi::interrupt.user = user;
}
