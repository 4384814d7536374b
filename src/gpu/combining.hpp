// Launches of the kernels that reduce.
#pragma once

#include <optional>

#include "gpu/combine.hpp"
#include "gpu/device.hpp"

namespace penstock::gpu {

/// The arithmetic of a collective.
struct Reducing {
  coll::Datatype type = coll::Datatype::float32;
  coll::Operation operation = coll::Operation::sum;
  double factor = 1;                  ///< factor of a premultiplied sum ...
  cuda::DevicePointer factor_at = 0;  ///< ... or where it lies, as a value of the type; 0: in
                                      ///< `factor`
};

/// The operation as kernels know it: an operation on booleans is one on bits.
coll::Operation operation_of(const Reducing& reducing);

/// Sets what a launch's arguments say of the arithmetic.
template <class Launch>
void set_arithmetic(const Reducing& reducing, Launch& launch) {
  launch.operation = operation_of(reducing);
  launch.factor = reducing.factor;
  launch.factor_at = reinterpret_cast<const void*>(reducing.factor_at);
}

/// Enqueues the reduction of `call`, whose pointers and elements are set. Errors: those of
/// Device::combine_kernel(); unavailable.
Result<void> launch(const Device& device, const Reducing& reducing, std::uint32_t ranks,
                    Combine& call, cuda::Stream stream);

/// Whether a single rank's value is copied unchanged.
bool copies_one(const Reducing& reducing);

}  // namespace penstock::gpu
