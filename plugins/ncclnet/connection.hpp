// A connection of NCCL's network interface: one messenger at each end, of which the listening end
// is rank 0 and the connecting one rank 1.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "ncclnet/abi.hpp"
#include "penstock/messages.h"

namespace penstock::ncclnet {

/// Says it by NCCL's logger, where there is one.
Result failed(Result result, const std::string& words);
Result outcome(penstock_status_t status, const char* what);
void set_logger(Logger logger);

/// How an end is reached; it travels in NCCL's handle.
struct Address {
  static constexpr std::uint64_t our_magic = 0x74654e6b636f7450;
  std::uint64_t magic = 0, pool = 0, token = 0;
  penstock_address_t messenger{};
};
/// NCCL's handle: it calls connect() with the same one again until there is a connection.
struct Handle {
  Address address;
  class Connection* begun = nullptr;  ///< of the connecting end
};
static_assert(sizeof(Handle) <= handle_bytes);

struct Request {
  class Connection* connection;
  penstock_request_t* request;
};

class Connection {
 public:
  /// `rank`: 0 listens, 1 connects.
  static Result open(std::uint32_t rank, std::unique_ptr<Connection>& connection);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Address address() const;
  /// Of the connecting end: begins to greet the other, by which it is known there.
  Result greet(const Address& other);
  /// Whether the greeting is through: sent, or received by the listening end. No wait.
  Result has_met(bool& met);

  Result send(void* data, std::size_t bytes, int tag, void** request);
  Result receive(void* data, std::size_t bytes, int tag, void** request);
  /// Goes on with all that is under way. `bytes`: of what was received; may be null.
  static Result test(Request* request, int* done, int* bytes);

 private:
  explicit Connection(std::uint32_t rank) : rank_(rank) {}
  std::uint32_t other() const { return 1 - rank_; }
  Result begun(penstock_status_t status, penstock_request_t* made, void** request);
  Result check_alive();

  std::uint32_t rank_;
  penstock_messenger_t* messenger_ = nullptr;
  Address greeting_;  ///< that is sent or received
  penstock_request_t* greeting_request_ = nullptr;
  std::uint64_t peer_ = 0;  ///< its token
  std::chrono::steady_clock::time_point next_check_{};
};

/// Whether PENSTOCK_POOL names a pool that can be attached to.
bool has_pool();

}  // namespace penstock::ncclnet
