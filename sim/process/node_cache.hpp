// A node's cache of a pool, in a file that all processes of the node map:
//
//   view    as long as the pool
//   shadow  as long as the pool
//   held    one byte for each line
//   locks   LineLocks
//
// All zeros is a valid initial state: nothing is held, nothing is dirty. The file is sparse and
// lies beside the pool (pool/node_caches.hpp). Each process that maps it holds a shared flock on
// it, so that a file in use is not removed as a leftover. An observer is a node of its own, in
// private memory.
#pragma once

#include <memory>

#include "base/fork.hpp"
#include "coherence/coherence.hpp"
#include "sim/memory/node_view.hpp"

namespace penstock::sim {

class NodeCache {
 public:
  /// Errors: permission, no_space, wrong_format, unavailable.
  static Result<std::unique_ptr<NodeCache>> open(const coherence::PoolMapping& place);
  NodeCache(const coherence::PoolMapping& place, std::byte* memory, int fd);
  ~NodeCache();
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  NodeView& view() { return view_; }

 private:
  std::byte* memory_;
  std::uint64_t bytes_;
  base::ProcessFd fd_;
  NodeView view_;
};

}  // namespace penstock::sim
