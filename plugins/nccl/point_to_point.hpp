// ncclSend and ncclRecv: messages (penstock/messages.h), which a thread of the communicator
// carries. Memory of a GPU passes through staging memory of the host in chunks, two on their way: a
// stream for each peer and direction copies there or from there, and waits by words that only grow.
// NCCL's groups need all messages of a group to go on side by side, whatever their order.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/pinned.hpp"
#include "nccl/abi.hpp"
#include "penstock/messages.h"

namespace penstock::nccl {

struct Transfer {
  bool is_send = true;
  std::uint32_t peer = 0;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  Stream stream = nullptr;
};

/// One direction of a pair of ranks: its messages, in order.
class Channel;

class PointToPoint {
 public:
  /// Owns `messenger`. `device`: null where there is no GPU; then begin() returns when all are
  /// done.
  PointToPoint(penstock_messenger_t* messenger, std::uint32_t self,
               std::vector<penstock_address_t> addresses, std::vector<std::uint64_t> tokens,
               penstock_pool_t* pool, std::shared_ptr<const gpu::Device> device);
  ~PointToPoint();
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  /// Begins all of them. Error of a call that was begun: error().
  Result begin(const std::vector<Transfer>& transfers);
  /// The words of the first error; after it nothing waits any more.
  std::optional<std::string> error() const;
  void stop(const std::string& why);
  /// Waits until all that was begun is done, or has failed.
  void drain();

 private:
  Result refuse_capture(const std::vector<Transfer>& transfers);
  Result copy_after_send(const Transfer& send, const Transfer& receive);
  Result copy_within(const std::vector<Transfer>& transfers);
  Result issue(const std::vector<Transfer>& transfers);
  Result carry_by_host(const std::vector<Transfer>& transfers);
  Channel& channel(std::uint32_t peer, bool is_send);
  Result meet(std::uint32_t peer);
  void run();
  bool look();
  void check_alive();
  bool is_active() const;

  penstock_messenger_t* messenger_;
  std::uint32_t self_;
  std::vector<penstock_address_t> addresses_;
  std::vector<std::uint64_t> tokens_;
  std::vector<bool> known_;
  penstock_pool_t* pool_;
  std::shared_ptr<const gpu::Device> device_;

  /// Held by the program's thread that begins messages or, without a GPU, carries them.
  std::mutex turn_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::uint32_t, bool>, std::unique_ptr<Channel>> channels_;
  std::optional<std::string> error_;
  std::vector<penstock_request_t*> abandoned_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace penstock::nccl
