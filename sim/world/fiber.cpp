#include "sim/world/fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace penstock::sim {

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  void* stack = ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(stack);
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = stack_bytes;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::start), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

Fiber::~Fiber() {
  if (stack_ != nullptr) ::munmap(stack_, stack_bytes);
}

void Fiber::start(unsigned high, unsigned low) {
  const auto self = static_cast<std::uintptr_t>(high) << 32 | low;
  reinterpret_cast<Fiber*>(self)->body_();
  std::abort();  // a body switches away at its end
}

void Fiber::enter(Fiber& from) {
  from.begun_ = true;
  if (_setjmp(from.left_) != 0) return;
  if (begun_) _longjmp(left_, 1);
  begun_ = true;
  setcontext(&context_);
}

}  // namespace penstock::sim
