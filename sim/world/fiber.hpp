// A thread of control with a stack of its own, switched by hand.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace penstock::sim {

class Fiber {
 public:
  /// The one that is running already: nothing but a place to come back to.
  Fiber() = default;
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves `from` here and goes on in this one. The body must never return: it switches away.
  void enter(Fiber& from);

 private:
  static void start(unsigned high, unsigned low);

  static constexpr std::size_t stack_bytes = 512 << 10;
  ucontext_t context_{};  ///< where it begins
  jmp_buf left_{};        ///< where it was left; no system call, unlike a switch of contexts
  bool begun_ = false;
  std::byte* stack_ = nullptr;
  std::function<void()> body_;
};

}  // namespace penstock::sim
