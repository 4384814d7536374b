#include "nccl/outcome.hpp"

#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::nccl {

namespace {

thread_local std::string words_of_last;

Result result_of(penstock_status_t status) {
  switch (status) {
    case PENSTOCK_OK:
      return success;
    case PENSTOCK_INVALID_ARGUMENT:
      return invalid_argument;
    case PENSTOCK_MISMATCH:
      return invalid_usage;
    case PENSTOCK_PEER_DEAD:
    case PENSTOCK_DEADLINE:
    case PENSTOCK_UNAVAILABLE:  // another rank gave up, or this one was aborted
      return remote_error;
    case PENSTOCK_INTERNAL:
      return internal_error;
    default:
      return system_error;
  }
}

}  // namespace

const std::string& last_error() {
  return words_of_last;
}

Result failed(Result result, const std::string& words) {
  words_of_last = words;
  base::log(base::Level::info, "{}", words);
  return result;
}

Result outcome(const penstock::Result<void>& done) {
  return done ? success : failed(unhandled_cuda_error, done.error().message);
}

Result outcome(penstock_status_t status, const char* call) {
  if (status == PENSTOCK_OK) return success;
  const std::string words = penstock_last_error();
  const bool named = words.rfind(call, 0) == 0;  // also true if `call` is empty
  return failed(result_of(status), named ? words : fmt::format("{}: {}", call, words));
}

Result message_outcome(penstock_status_t status, bool is_send, std::uint32_t peer) {
  if (status == PENSTOCK_OK) return success;
  const std::string call =
      fmt::format("{} rank {}", is_send ? "ncclSend to" : "ncclRecv from", peer);
  if (status == PENSTOCK_NOT_FOUND)  // its endpoint, also when its process lives on
    return failed(remote_error, call + ": that rank has left the communicator");
  return outcome(status, call.c_str());
}

Result other_length(std::uint32_t peer, std::uint64_t sent, std::uint64_t received) {
  return failed(invalid_usage,
                fmt::format("ncclRecv: rank {} has sent {} bytes where this rank receives {}: both "
                            "must name the same count and type",
                            peer, sent, received));
}

Result given_up(bool is_send, std::uint32_t peer) {
  return failed(remote_error,
                fmt::format("{}: rank {} has given up", is_send ? "ncclSend" : "ncclRecv", peer));
}

Result was_aborted() {
  return failed(internal_error, "the communicator was aborted");
}

}  // namespace penstock::nccl
