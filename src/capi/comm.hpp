// Communicators of the C interface.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capi/attachment.hpp"
#include "coll/communicator.hpp"
#include "penstock/collectives.h"

struct penstock_comm {
  std::shared_ptr<penstock::capi::Attachment> attachment;
  std::unique_ptr<penstock::coll::Communicator> core;
  std::optional<penstock::arena::Object> area;  ///< of rank 0, which owns it
  penstock::coll::Problem problem;              ///< of the call in progress
  std::vector<std::uint64_t> tokens;            ///< by rank
};

namespace penstock::capi {

/// Meets the other ranks, and agrees on where the communicator lies.
Result<std::unique_ptr<penstock_comm>> open_comm(std::shared_ptr<Attachment> attachment,
                                                 const penstock_comm_options_t& options);
/// This rank has made its last call.
void close_comm(std::unique_ptr<penstock_comm> comm);

}  // namespace penstock::capi
