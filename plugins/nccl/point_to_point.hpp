// ncclSend and ncclRecv as messages (penstock/messages.h), which a thread of the communicator
// carries. GPU memory passes in chunks through slots of the pool (message_slots.hpp), or short ones
// through staging buffers of the host (channel.hpp): one stream per peer and direction copies to or
// from them, and waits on words that only increase. NCCL requires all messages of a group to
// proceed concurrently, whatever their order.
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
#include "nccl/message_slots.hpp"
#include "penstock/messages.h"

namespace penstock::nccl {

struct Transfer {
  bool is_send = true;
  std::uint32_t peer = 0;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  Stream stream = nullptr;
};

/// One direction between two ranks; carries its messages in order.
class Channel;
struct ChannelChunk;

class PointToPoint {
 public:
  /// Takes ownership of `messenger`. `tokens`: of the ranks' processes. `device` is null without a
  /// GPU.
  PointToPoint(penstock_messenger_t* messenger, std::uint32_t self,
               std::vector<penstock_address_t> addresses, const std::vector<std::uint64_t>& tokens,
               std::shared_ptr<const gpu::Device> device, std::unique_ptr<MessageSlots> slots);
  ~PointToPoint();
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  /// Without a GPU: carries all transfers; returns when they are done. With a GPU begin_together()
  /// begins them (issue.hpp), and error() reports errors after that.
  Result carry(const std::vector<Transfer>& transfers);
  /// The message of the first error, if any. After an error no stream or thread waits any more.
  std::optional<std::string> error() const;
  /// Whether a transfer is under way.
  bool is_busy() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return is_active();
  }
  void stop(const std::string& why);
  /// Waits until all transfers that were begun are done or have failed.
  void drain();

  // With a GPU, for the thread that begins messages (issue.hpp):
  std::uint32_t self() const { return self_; }
  const gpu::Device& device() const { return *device_; }
  /// Copies the messages of this rank to itself, in order. Errors: that of earlier messages;
  /// invalid_usage if a stream captures a graph, or if sends and receives do not match.
  Result copy_own(const std::vector<Transfer>& transfers);
  /// One thread at a time begins messages; others ask again.
  std::unique_lock<std::mutex> try_turn() { return {turn_, std::try_to_lock}; }
  // The next two need the turn:
  /// Finds the channel of a transfer, or makes it, with slots if the transfer needs them. The
  /// driver may wait meanwhile.
  Result prepare(const Transfer& transfer, Channel*& channel);
  /// Lets the thread that carries messages expect these chunks.
  Result announce(const std::map<Channel*, std::deque<ChannelChunk>>& parts);

 private:
  Result refuse_capture(const std::vector<Transfer>& transfers);
  Result copy_after_send(const Transfer& send, const Transfer& receive);
  Result copy_within(const std::vector<Transfer>& transfers);
  std::vector<Transfer> pieces_of(const std::vector<Transfer>& transfers) const;
  Result carry_by_host(const std::vector<Transfer>& messages);
  void check_gpu();
  void fail_with(const std::string& why);
  Result meet(std::uint32_t peer);
  void run();
  bool look();
  void check_slots();
  bool is_active() const;

  penstock_messenger_t* messenger_;
  std::uint32_t self_;
  std::vector<penstock_address_t> addresses_;
  std::vector<bool> known_;
  std::shared_ptr<const gpu::Device> device_;

  /// Held by the program's thread that begins messages or, without a GPU, carries them. Locked
  /// before mutex_.
  std::mutex turn_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<MessageSlots> slots_;  ///< outlives the channels, which access its memory
  std::map<std::pair<std::uint32_t, bool>, std::unique_ptr<Channel>> channels_;
  std::optional<std::string> error_;
  std::vector<penstock_request_t*> abandoned_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace penstock::nccl
