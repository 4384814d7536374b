// Results of NCCL's interface, and what ncclGetLastError() says of them.
#pragma once

#include <string>

#include "base/status.hpp"
#include "nccl/abi.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

/// What the last failed call of this thread met.
const std::string& last_error();
/// Keeps the words for ncclGetLastError(), and logs them.
Result failed(Result result, const std::string& words);
/// Of a call of NVIDIA's driver.
Result outcome(const penstock::Result<void>& done);
/// Of a call of the C interface, whose words penstock_last_error() has.
Result outcome(penstock_status_t status, const char* call);

}  // namespace penstock::nccl
