// The kernels of gpu/combine.cu on the stand-in GPU: the same code of an element, on the host.
#include "gpu/combine.hpp"
#include "sim/cuda/kernels.hpp"
#include "sim/cuda/stream.hpp"

namespace penstock::sim::cuda {

namespace {

using penstock::gpu::Combine;

DevicePointer device_pointer(const void* pointer) {
  return reinterpret_cast<DevicePointer>(pointer);
}

/// Replaces the device pointers by host addresses of the bytes. Returns false if one of them is
/// wrong.
bool reach_all(Combine& call, std::size_t element_bytes) {
  const std::size_t bytes = call.elements * element_bytes;
  const auto reach = [&](const void* pointer, std::size_t wanted) {
    return Memory::instance().reach(device_pointer(pointer), wanted);
  };
  call.result = reach(call.result, bytes);
  bool found = call.result != nullptr;
  for (std::uint32_t k = 0; k < call.operands; ++k) {
    call.operand[k] = reach(call.operand[k], bytes);
    found = found && call.operand[k] != nullptr;
  }
  if (call.factor_at != nullptr) {
    call.factor_at = reach(call.factor_at, element_bytes);
    found = found && call.factor_at != nullptr;
  }
  return found;
}

template <class Format>
void combine(const Grid&, void* const* arguments) {
  Combine call = *static_cast<const Combine*>(arguments[0]);
  if (!reach_all(call, sizeof(typename Format::Word))) return set_sticky_error(illegal_address);
  gpu::with_arithmetic<Format>(call, [values = call.values()](const auto& arithmetic) {
    for (std::size_t i = 0; i < values.elements; ++i) gpu::combine_one(values, i, arithmetic);
  });
}

}  // namespace

void add_combine_kernels() {
#define PENSTOCK_COMMA ,
#define PENSTOCK_COMBINE(type, ...) \
  add_kernel("penstock_combine_" #type, sizeof(Combine), combine<__VA_ARGS__>);
#include "gpu/combine_table.inc"
#undef PENSTOCK_COMBINE
}

}  // namespace penstock::sim::cuda
