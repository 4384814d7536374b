// A connection of NCCL's network interface. Each end has a messenger; the listening end is rank 0,
// the connecting end rank 1.
#pragma once

#include <memory>
#include <string>

#include "ncclnet/abi.hpp"
#include "penstock/messages.h"

namespace penstock::ncclnet {

/// Logs the message by NCCL's logger, if it is set. Returns `result`.
Result failed(Result result, const std::string& words);
Result outcome(penstock_status_t status, const char* what);
void set_logger(Logger logger);

/// The address of an end; part of NCCL's handle.
struct Address {
  static constexpr std::uint64_t our_magic = 0x74654e6b636f7450;
  std::uint64_t magic = 0, pool = 0, token = 0;
  penstock_address_t messenger{};
};
/// NCCL's handle. NCCL calls connect() with the same handle until the connection is made.
struct Handle {
  Address address;
  class Connection* begun = nullptr;  ///< the connection that the connecting end has begun
};
static_assert(sizeof(Handle) <= handle_bytes);

struct Request {
  class Connection* connection;
  penstock_request_t* request;
};

class Connection {
 public:
  /// Opens one end. `rank`: 0 listens, 1 connects.
  static Result open(std::uint32_t rank, std::unique_ptr<Connection>& connection);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Address address() const;
  /// On the connecting end: begins to send the greeting that tells the other end our address.
  Result greet(const Address& other);
  /// Sets `met` once the greeting is sent (connecting end) or received (listening end). Does not
  /// wait.
  Result has_met(bool& met);

  Result send(void* data, std::size_t bytes, int tag, void** request);
  Result receive(void* data, std::size_t bytes, int tag, void** request);
  /// Makes progress and tests a request. `bytes`: receives the message's length; may be null.
  static Result test(Request* request, int* done, int* bytes);

 private:
  explicit Connection(std::uint32_t rank) : rank_(rank) {}
  std::uint32_t other() const { return 1 - rank_; }
  Result begun(penstock_status_t status, penstock_request_t* made, void** request);

  std::uint32_t rank_;
  penstock_messenger_t* messenger_ = nullptr;
  Address greeting_;  ///< the greeting that is sent or received
  penstock_request_t* greeting_request_ = nullptr;
  std::uint64_t peer_ = 0;  ///< the token of the other end, once its address is known
};

/// True if PENSTOCK_POOL names a pool that can be attached to.
bool has_pool();

}  // namespace penstock::ncclnet
