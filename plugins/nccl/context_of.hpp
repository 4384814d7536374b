// The caller's GPU context, for threads that call the driver on its behalf.
#pragma once

#include "cuda/driver.hpp"

namespace penstock::nccl {

class ContextOf {
 public:
  ContextOf() {
    if (const auto driver = cuda::driver()) (void)(*driver)->context_current(&context_);
  }

  /// Makes the context current on this thread while it exists.
  class Scope {
   public:
    explicit Scope(const ContextOf& of) : context_(of.context_) {
      if (context_ != nullptr) (void)(*cuda::driver())->context_push(context_);
    }
    ~Scope() {
      cuda::Context left = nullptr;
      if (context_ != nullptr) (void)(*cuda::driver())->context_pop(&left);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    cuda::Context context_;
  };

 private:
  cuda::Context context_ = nullptr;
};

}  // namespace penstock::nccl
