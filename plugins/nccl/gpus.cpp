#include "nccl/gpus.hpp"

#include "base/format.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

Result check_gpus(const char* call, int ranks, const int* list) {
  const auto driver = cuda::driver();
  if (!driver) return success;
  int count = 0;
  if (const auto asked = (*driver)->check((*driver)->device_count(&count), call); !asked)
    return outcome(asked);
  if (list == nullptr && ranks > count)
    return failed(invalid_argument,
                  fmt::format("{}: {} devices, and this process sees {} of them: pass a list of "
                              "devices, which may name one for several ranks",
                              call, ranks, count));
  for (int i = 0; i < ranks && list != nullptr; ++i)
    if (list[i] < 0 || list[i] >= count)
      return failed(invalid_argument,
                    fmt::format("{}: device {} of the list does not exist: this process sees {}, "
                                "from 0 on",
                                call, list[i], count));
  return success;
}

OnGpu::OnGpu(int ordinal) {
  const auto driver = cuda::driver();
  if (!driver || (*driver)->device_get(&device_, ordinal) != cuda::success) return;
  driver_ = *driver;
  cuda::Context context = nullptr;
  is_held_ = driver_->primary_retain(&context, device_) == cuda::success;
  is_current_ = is_held_ && driver_->context_push(context) == cuda::success;
}

OnGpu::~OnGpu() {
  cuda::Context left = nullptr;
  if (is_current_) (void)driver_->context_pop(&left);
  if (is_held_) (void)driver_->primary_release(device_);
}

}  // namespace penstock::nccl
