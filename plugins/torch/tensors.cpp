#include "tensors.hpp"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <limits>

namespace penstock::torch {

namespace {

std::int32_t datatype_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return PENSTOCK_INT8;
    case at::kByte:
      return PENSTOCK_UINT8;
    case at::kShort:
      return PENSTOCK_INT16;
    case at::kUInt16:
      return PENSTOCK_UINT16;
    case at::kInt:
      return PENSTOCK_INT32;
    case at::kUInt32:
      return PENSTOCK_UINT32;
    case at::kLong:
      return PENSTOCK_INT64;
    case at::kUInt64:
      return PENSTOCK_UINT64;
    case at::kHalf:
      return PENSTOCK_FLOAT16;
    case at::kBFloat16:
      return PENSTOCK_BFLOAT16;
    case at::kFloat:
      return PENSTOCK_FLOAT32;
    case at::kDouble:
      return PENSTOCK_FLOAT64;
    case at::kFloat8_e4m3fn:
      return PENSTOCK_FLOAT8_E4M3;
    case at::kFloat8_e5m2:
      return PENSTOCK_FLOAT8_E5M2;
    case at::kBool:
      return PENSTOCK_BOOLEAN;
    default:
      TORCH_CHECK(false, "penstock reduces no tensors of ", type,
                  ": use integers, booleans, float8_e4m3fn, float8_e5m2, half, bfloat16, float, "
                  "double, or complex numbers with SUM or AVG");
  }
}

std::int32_t operation_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return PENSTOCK_SUM;
    case c10d::ReduceOp::AVG:
      return PENSTOCK_AVERAGE;
    case c10d::ReduceOp::PRODUCT:
      return PENSTOCK_PRODUCT;
    case c10d::ReduceOp::MIN:
      return PENSTOCK_MINIMUM;
    case c10d::ReduceOp::MAX:
      return PENSTOCK_MAXIMUM;
    case c10d::ReduceOp::BAND:
      return PENSTOCK_BIT_AND;
    case c10d::ReduceOp::BOR:
      return PENSTOCK_BIT_OR;
    case c10d::ReduceOp::BXOR:
      return PENSTOCK_BIT_XOR;
    case c10d::ReduceOp::PREMUL_SUM:
      return PENSTOCK_PREMULTIPLIED_SUM;
    default:
      TORCH_CHECK(false, "penstock knows no reduction ", static_cast<int>(op.op_));
  }
}

double factor_of(const c10d::ReduceOp& op) {
  const auto* given = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(given != nullptr,
              "PREMUL_SUM has no factor: make it by torch.distributed._make_nccl_premul_sum");
  return given->tensor_factor.defined() ? given->tensor_factor.item<double>()
                                        : given->double_factor;
}

}  // namespace

void check_tensor(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(tensor.defined(), "penstock: ", what, " of no tensor");
  TORCH_CHECK(tensor.device().is_cpu() || tensor.device().is_cuda(), "penstock: ", what,
              " of a tensor on ", tensor.device(),
              ": only tensors of the CPU and of CUDA are supported; move it with .cpu()");
  TORCH_CHECK(tensor.layout() == at::kStrided, "penstock: ", what, " of a tensor of layout ",
              tensor.layout(), ": make it dense with .to_dense()");
}

void check_writable(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "penstock: ", what,
              " into a tensor of which several elements share memory, as after expand(): "
              "clone() it first");
  TORCH_CHECK(!tensor._is_zerotensor(), "penstock: ", what,
              " into a tensor of zeros that has no memory: clone() it first");
}

at::Tensor memory_of(const at::Tensor& tensor, bool load, at::Device where) {
  // Views such as x.conj() and x.conj().imag, and zero tensors, are computed only when used.
  const bool lazy = tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor();
  if (!lazy && tensor.is_contiguous() && tensor.device() == where) return tensor;
  at::Tensor made = at::empty(
      tensor.sizes(), tensor.options().device(where).memory_format(at::MemoryFormat::Contiguous));
  if (load) made.copy_(tensor.detach());
  return made;
}

Blocks::Blocks(const std::vector<at::Tensor>& tensors, bool load) : given_(tensors) {
  std::uintptr_t lowest = std::numeric_limits<std::uintptr_t>::max();
  for (const at::Tensor& tensor : tensors) {
    dense_.push_back(memory_of(tensor, load, tensor.device()));
    if (tensor.numel() != 0)
      lowest = std::min(lowest, reinterpret_cast<std::uintptr_t>(dense_.back().data_ptr()));
  }
  const bool any = lowest != std::numeric_limits<std::uintptr_t>::max();
  base_ = any ? reinterpret_cast<std::byte*>(lowest) : nullptr;  // NOLINT: back to a pointer
  for (const at::Tensor& tensor : dense_) {
    const auto* const data = static_cast<const std::byte*>(tensor.data_ptr());
    const auto offset = tensor.numel() != 0 ? static_cast<std::uint64_t>(data - base_) : 0;
    list_.push_back({offset, tensor.nbytes()});
  }
}

std::uint64_t Blocks::longest() const {
  std::uint64_t most = 0;
  for (const penstock_block_t& block : list_) most = std::max(most, block.bytes);
  return most;
}

void Blocks::check_writable(const char* what) const {
  for (const at::Tensor& tensor : given_) torch::check_writable(tensor, what);
}

void Blocks::store() const {
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (!given_[i].is_same(dense_[i])) {
      at::Tensor to = given_[i].detach();
      to.copy_(dense_[i]);
    }
  }
}

void Blocks::rebase(std::byte* base) {
  if (base_ == nullptr) return;
  for (penstock_block_t& block : list_)
    if (block.bytes != 0) block.offset += static_cast<std::uint64_t>(base_ - base);
  base_ = base;
}

Blocks Blocks::rows(const at::Tensor& tensor, bool load, const std::vector<std::int64_t>& sizes,
                    int ranks, const char* what) {
  Blocks made;
  made.given_ = {tensor};
  made.dense_ = {memory_of(tensor, load, tensor.device())};
  const std::int64_t numbers = tensor.numel();
  if (numbers != 0) made.base_ = static_cast<std::byte*>(made.dense_[0].data_ptr());
  made.list_.reserve(static_cast<std::size_t>(ranks));
  const auto add = [&](std::int64_t first, std::int64_t count) {
    const auto size = static_cast<std::int64_t>(tensor.element_size());
    made.list_.push_back({static_cast<std::uint64_t>(count != 0 ? first * size : 0),
                          static_cast<std::uint64_t>(count * size)});
  };
  if (sizes.empty()) {
    TORCH_CHECK(numbers % ranks == 0, "penstock: ", what, " splits ", numbers, " elements over ",
                ranks, " ranks: the number must be a multiple");
    const std::int64_t each = numbers / ranks;
    for (int rank = 0; rank < ranks; ++rank) add(rank * each, each);
    return made;
  }
  TORCH_CHECK(static_cast<int>(sizes.size()) == ranks, "penstock: ", what, " has ", sizes.size(),
              " split sizes for ", ranks, " ranks");
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const std::int64_t row = rows == 0 ? 0 : numbers / rows;
  std::int64_t at = 0;
  for (const std::int64_t size : sizes) {
    TORCH_CHECK(size >= 0 && at + size <= rows, "penstock: ", what, " splits ", rows,
                " rows, and the split sizes are more");
    add(at * row, size * row);
    at += size;
  }
  TORCH_CHECK(at == rows, "penstock: ", what, " splits ", rows, " rows, and the split sizes are ",
              at, " in all");
  return made;
}

ReductionOf reduction_of(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  ReductionOf found;
  at::ScalarType type = tensor.scalar_type();
  if (at::isComplexType(type)) {
    TORCH_CHECK(c10d::isComplexViewAsRealAllowed(op),
                "penstock reduces complex tensors by SUM, AVG and PREMUL_SUM only");
    type = c10::toRealValueType(type);
  }
  found.datatype = datatype_of(type);
  found.operation = operation_of(op);
  if (found.operation == PENSTOCK_PREMULTIPLIED_SUM) found.factor = factor_of(op);
  return found;
}

}  // namespace penstock::torch
