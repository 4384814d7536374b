// Launches of the kernels that reduce.
#pragma once

#include <optional>

#include "gpu/combine.hpp"
#include "gpu/device.hpp"

namespace penstock::gpu {

/// What a collective does with the values of the ranks.
struct Reducing {
  coll::Datatype type = coll::Datatype::float32;
  coll::Operation operation = coll::Operation::sum;
  double factor = 1;                  ///< of a premultiplied sum ...
  cuda::DevicePointer factor_at = 0;  ///< ... or where it lies, of the type; 0: it does not
};

/// Enqueues the reduction of `call`, whose pointers and elements are set. Errors: those of
/// Device::combine_kernel(); unavailable.
Result<void> launch(const Device& device, const Reducing& reducing, std::uint32_t ranks,
                    Combine& call, cuda::Stream stream);

/// What kernels are told of it: an operation on booleans is one of bits.
coll::Operation operation_of(const Reducing& reducing);

/// Whether a single rank's value is copied as it is.
bool copies_one(const Reducing& reducing);

}  // namespace penstock::gpu
