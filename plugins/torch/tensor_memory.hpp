// Tensor memory in the pool. Collectives leave such data in place, and other ranks read it without
// a copy (docs/protocols/collectives.md, "Zero copy").
#pragma once

#include <ATen/ATen.h>
#include <penstock/penstock.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace penstock::torch {

class Attached;

/// Memory blocks of one process. Freed blocks are reused by size, so that a training step creates
/// no objects in the pool. Thread-safe.
class TensorMemory {
 public:
  explicit TensorMemory(penstock_pool_t* pool);
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  /// Allocates a tensor of `elements` uninitialized elements, aligned to a line. It keeps
  /// `attached` alive, which owns the memory. Returns an undefined tensor if the pool has no room,
  /// or `elements` is not positive or too large.
  static at::Tensor allocate(const std::shared_ptr<Attached>& attached, std::int64_t elements,
                             const at::TensorOptions& options);

  /// Frees the unused blocks, because something else needs the space.
  void give_up_unused();

 private:
  using Block = std::pair<std::uint64_t, penstock_object_t*>;  ///< size in bytes, and the object
  penstock_object_t* take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes, penstock_object_t* block);
  penstock_object_t* create(std::uint64_t bytes);
  void destroy_unused();

  penstock_pool_t* pool_;
  std::mutex mutex_;
  std::set<Block> unused_;
  std::uint64_t unused_bytes_ = 0, max_unused_bytes_ = 0;
  std::uint64_t made_ = 0;
};

}  // namespace penstock::torch
