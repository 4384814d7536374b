// Memory of tensors in the pool: collectives leave what lies there where it is, and others read it
// without a copy (docs/protocols/collectives.md, "Zero copy").
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

/// Blocks of one process. Those that were given back are used again, by sizes, so that a training
/// step makes no objects in the pool. Thread-safe.
class TensorMemory {
 public:
  explicit TensorMemory(penstock_pool_t* pool);
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  /// `elements` of uninitialized memory, on a line; it keeps `attached`, whose memory this is. Not
  /// defined where the pool has no room, or `elements` is no number of them.
  static at::Tensor allocate(const std::shared_ptr<Attached>& attached, std::int64_t elements,
                             const at::TensorOptions& options);

  /// What was given back and is kept for the next: something else needs the room.
  void give_up_unused();

 private:
  using Block = std::pair<std::uint64_t, penstock_object_t*>;  ///< bytes, and where
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
