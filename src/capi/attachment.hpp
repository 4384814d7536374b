// The objects behind the handles of the C interface.
#pragma once

#include <memory>
#include <mutex>

#include "arena/arena.hpp"
#include "penstock/penstock.h"
#include "pool/pool.hpp"

namespace penstock::capi {

/// Communicators that this process has closed: comm.hpp.
class ClosedComms;

/// Shared by all handles made from one attach: detaches with the last of them. What stands further
/// down is gone earlier.
struct Attachment {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;
  std::mutex mutex;  ///< of `closed`
  std::shared_ptr<ClosedComms> closed;
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
