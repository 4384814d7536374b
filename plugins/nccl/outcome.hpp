// Results of NCCL's interface, and their messages for ncclGetLastError().
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "nccl/abi.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

/// The message of this thread's last failed call.
const std::string& last_error();
/// Stores the message for ncclGetLastError(), and logs it. Returns `result`.
Result failed(Result result, const std::string& words);
/// Converts the result of a call to NVIDIA's driver.
Result outcome(const penstock::Result<void>& done);
/// Converts the status of a call to the C interface; the message is penstock_last_error().
Result outcome(penstock_status_t status, const char* call);
/// The same for a message to or from a rank: the words always name that rank.
Result message_outcome(penstock_status_t status, bool is_send, std::uint32_t peer);
/// Fails a receive whose message has another length: invalid_usage.
Result other_length(std::uint32_t peer, std::uint64_t sent, std::uint64_t received);
/// Fails a message to or from a rank that has given up: remote_error.
Result given_up(bool is_send, std::uint32_t peer);
/// Fails a call of a communicator that this rank has aborted: internal_error.
Result was_aborted();

}  // namespace penstock::nccl
