// Tensors as the collectives of penstock/collectives.h take them: blocks that lie in one piece of
// memory, and types.
#pragma once

#include <ATen/ATen.h>
#include <penstock/collectives.h>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace penstock::torch {

/// Refuses what is not dense memory of the CPU or of a GPU.
void check_tensor(const at::Tensor& tensor, const char* what);
/// No two of its elements share memory, as those of an expanded tensor do.
void check_writable(const at::Tensor& tensor, const char* what);

/// The only way from a tensor to memory: contiguous memory of `where`, the tensor's own if that
/// holds its values as they are. Else a copy: of its values if `load`, to be copied back if not.
at::Tensor memory_of(const at::Tensor& tensor, bool load, at::Device where);

/// The memory of some tensors, a block each, as offsets from the lowest of them. store() copies
/// back the outputs that memory_of() has copied.
class Blocks {
 public:
  Blocks() = default;
  /// `load`: their values count.
  Blocks(const std::vector<at::Tensor>& tensors, bool load);
  /// Blocks of equal or given lengths along the first dimension of one tensor; `sizes` empty:
  /// equal.
  static Blocks rows(const at::Tensor& tensor, bool load, const std::vector<std::int64_t>& sizes,
                     int ranks, const char* what);

  const std::vector<at::Tensor>& tensors() const { return given_; }
  /// Where the blocks lie: those, or copies.
  const std::vector<at::Tensor>& dense() const { return dense_; }
  std::byte* base() const { return base_; }
  const std::vector<penstock_block_t>& list() const { return list_; }
  std::uint64_t longest() const;
  /// That store() can be done: known before others take part in the call.
  void check_writable(const char* what) const;
  void store() const;
  /// Views the memory from another base, to be one piece with `other`: in place.
  void rebase(std::byte* base);

 private:
  std::vector<at::Tensor> given_, dense_;
  std::vector<penstock_block_t> list_;
  std::byte* base_ = nullptr;
};

/// Type and operation of a reduction, with an error that names what cannot be reduced.
struct ReductionOf {
  std::int32_t datatype = 0, operation = 0;
  double factor = 1;
};
ReductionOf reduction_of(const at::Tensor& tensor, const c10d::ReduceOp& op);

}  // namespace penstock::torch
