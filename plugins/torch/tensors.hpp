// Tensors in the form that penstock/collectives.h needs: blocks in one piece of memory, and types.
#pragma once

#include <ATen/ATen.h>
#include <penstock/collectives.h>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace penstock::torch {

/// Throws unless the tensor is dense memory of the CPU or of a GPU.
void check_tensor(const at::Tensor& tensor, const char* what);
/// Throws if elements share memory, as in an expanded tensor.
void check_writable(const at::Tensor& tensor, const char* what);

/// The only way from a tensor to memory: contiguous memory on `where`. It is the tensor's own
/// memory if that holds its values as they are, and otherwise a copy. `load`: copy the values; else
/// the caller must copy the results back.
at::Tensor memory_of(const at::Tensor& tensor, bool load, at::Device where);

/// The memory of some tensors, one block each, as offsets from the lowest address. store() copies
/// results back to outputs for which memory_of() made a copy.
class Blocks {
 public:
  Blocks() = default;
  /// `load`: the tensors' values are used.
  Blocks(const std::vector<at::Tensor>& tensors, bool load);
  /// Splits one tensor along its first dimension. `sizes`: rows of each block; empty: equal blocks.
  static Blocks rows(const at::Tensor& tensor, bool load, const std::vector<std::int64_t>& sizes,
                     int ranks, const char* what);

  const std::vector<at::Tensor>& tensors() const { return given_; }
  /// The tensors that hold the blocks: the given ones, or copies.
  const std::vector<at::Tensor>& dense() const { return dense_; }
  std::byte* base() const { return base_; }
  const std::vector<penstock_block_t>& list() const { return list_; }
  std::uint64_t longest() const;
  /// Throws if store() would fail. Call it before other ranks take part in the call.
  void check_writable(const char* what) const;
  void store() const;
  /// Makes the offsets relative to another base, so that a call in place has one.
  void rebase(std::byte* base);

 private:
  std::vector<at::Tensor> given_, dense_;
  std::vector<penstock_block_t> list_;
  std::byte* base_ = nullptr;
};

/// Type and operation of a reduction. Throws an error that names an unsupported type or operation.
struct ReductionOf {
  std::int32_t datatype = 0, operation = 0;
  double factor = 1;
};
ReductionOf reduction_of(const at::Tensor& tensor, const c10d::ReduceOp& op);

}  // namespace penstock::torch
