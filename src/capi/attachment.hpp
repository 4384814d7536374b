// The objects behind the handles of the C interface.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "arena/arena.hpp"
#include "coll/communicator.hpp"
#include "penstock/penstock.h"
#include "pool/pool.hpp"

namespace penstock::capi {

/// Communicators that this process has closed and whose space it owns: other ranks may still read
/// and write there.
class ClosedComms {
 public:
  void add(std::unique_ptr<coll::Communicator> core, const arena::Object& area);
  /// Gives the space back of those that all ranks have left.
  void give_back(arena::Arena& arena);
  /// The process detaches: waits a moment for the others, and leaves the rest to the end of the
  /// job.
  void end(arena::Arena& arena);

 private:
  struct Closed {
    std::unique_ptr<coll::Communicator> core;
    arena::Object area;
  };
  std::mutex mutex_;
  std::vector<Closed> closed_;
};

/// Shared by all handles made from one attach: detaches with the last of them.
struct Attachment {
  Attachment() = default;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  ~Attachment() {
    if (pool != nullptr && arena != nullptr && pool->attached_here()) closed.end(*arena);
  }

  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;  // after the pool: gone before it
  ClosedComms closed;
};

Result<std::shared_ptr<Attachment>> attach(const char* spec,
                                           const penstock_attach_options_t* options);

}  // namespace penstock::capi

struct penstock_pool {
  std::shared_ptr<penstock::capi::Attachment> attachment;
};

struct penstock_object {
  std::shared_ptr<penstock::capi::Attachment> attachment;
  penstock::arena::Object object;
};
