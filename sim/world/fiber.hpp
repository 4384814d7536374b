// A thread of control with its own stack, switched explicitly.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace penstock::sim {

class Fiber {
 public:
  /// Stands for the code that is already running: only a place to return to.
  Fiber() = default;
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves `from` here and continues in this fiber. The body must never return: it switches away.
  void enter(Fiber& from);

 private:
  static void start(unsigned high, unsigned low);

  static constexpr std::size_t stack_bytes = 512 << 10;
  ucontext_t context_{};  ///< where it begins
  jmp_buf left_{};        ///< where it was left; unlike a context switch it needs no system call
  bool begun_ = false;
  std::byte* stack_ = nullptr;
  std::function<void()> body_;
};

}  // namespace penstock::sim
