#include "gpu/combining.hpp"

#include <algorithm>

namespace penstock::gpu {

namespace {

constexpr unsigned threads = 256;
/// Bounds a copy's share of the GPU, for the sake of the program's own kernels: the bus is
/// saturated long before the multiprocessors are.
constexpr unsigned max_blocks = 32;

}  // namespace

bool copies_one(const Reducing& reducing) {
  return reducing.operation != coll::Operation::premultiplied_sum;
}

coll::Operation operation_of(const Reducing& reducing) {
  return reducing.type == coll::Datatype::boolean ? coll::of_booleans(reducing.operation)
                                                  : reducing.operation;
}

Result<void> launch(const Device& device, const Reducing& reducing, std::uint32_t ranks,
                    Combine& call, cuda::Stream stream) {
  set_arithmetic(reducing, call);
  call.ranks = ranks;
  const cuda::Function kernel = PENSTOCK_TRY(device.combine_kernel(reducing.type));
  const std::uint64_t per_thread = 16 / coll::bytes_of(reducing.type);
  const std::uint64_t wanted = (call.elements / per_thread + threads) / threads;
  const auto blocks = static_cast<unsigned>(std::clamp<std::uint64_t>(wanted, 1, max_blocks));
  return device.launch(kernel, blocks, threads, &call, stream, "a kernel that reduces");
}

}  // namespace penstock::gpu
