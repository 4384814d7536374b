// The caller's GPU context, for threads that call the driver on its behalf.
#pragma once

#include "gpu/driver.hpp"

namespace penstock::nccl {

class ContextOf {
 public:
  ContextOf() {
    if (const auto driver = cuda::driver()) (void)(*driver)->context_current(&context_);
  }

  /// Makes the context current on this thread while it exists; if the caller had none, this thread
  /// has none either.
  class Scope {
   public:
    explicit Scope(const ContextOf& of) {
      const auto driver = cuda::driver();
      if (!driver) return;
      driver_ = *driver;
      if (of.context_ != nullptr)
        pushed_ = driver_->context_push(of.context_) == cuda::success;
      else if (driver_->context_current(&hidden_) == cuda::success && hidden_ != nullptr)
        (void)driver_->context_pop(&hidden_);
    }
    ~Scope() {
      cuda::Context left = nullptr;
      if (pushed_) (void)driver_->context_pop(&left);
      if (hidden_ != nullptr) (void)driver_->context_push(hidden_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const cuda::Driver* driver_ = nullptr;
    bool pushed_ = false;
    cuda::Context hidden_ = nullptr;  ///< this thread's own
  };

 private:
  cuda::Context context_ = nullptr;
};

}  // namespace penstock::nccl
