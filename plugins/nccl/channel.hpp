// One direction between two ranks: a staging buffer of two chunks, a stream that copies to or from
// it, and the chunks in flight. Memory in the pool is not staged: the stream only signals that it
// is ready, and waits until it is sent or received.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "gpu/pinned.hpp"
#include "nccl/abi.hpp"
#include "penstock/messages.h"

namespace penstock::nccl {

class Channel {
 public:
  static constexpr std::uint64_t chunk_bytes = 1 << 20;
  static Result make(std::shared_ptr<const gpu::Device> device, std::uint32_t peer, bool is_send,
                     std::unique_ptr<Channel>& channel);
  /// Precondition: the stream is idle, or open() was called.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  std::uint32_t peer() const { return peer_; }
  bool is_idle() const { return chunks_.empty(); }

  /// A part of a message, of at most chunk_bytes.
  struct Chunk {
    std::byte* data = nullptr;  ///< address on the GPU
    std::uint64_t bytes = 0;
    std::byte* in_pool = nullptr;  ///< this process's address if the chunk lies in the pool: it is
                                   ///< then sent or received in place; else null
  };

  // Called by the thread that enqueues. Every chunk is announced, under PointToPoint's lock, before
  // it is enqueued.
  void announce(const Chunk& chunk) { chunks_.push_back(chunk); }
  Result begin_after(Stream user);
  /// Precedes the next `count` chunks: enqueues a signal that the channel may write their memory.
  Result reach(std::uint64_t count);
  /// Enqueues the next chunk on the stream.
  Result enqueue(const Chunk& chunk);
  Result end_before(Stream user);

  // Called by the thread that carries messages:
  /// Starts and completes all messages that can proceed. Sets `moved` if any did.
  Result carry(penstock_messenger_t* messenger, bool& moved);
  /// Releases all waits of the stream, after an error.
  void open() { go().store(1ull << 62, std::memory_order_release); }

 private:
  static constexpr std::uint64_t buffers = 2;
  Channel(std::shared_ptr<const gpu::Device> device, std::uint32_t peer, bool is_send)
      : device_(std::move(device)), peer_(peer), is_send_(is_send) {}
  Result allocate();
  Result wait_for_go(std::uint64_t number);
  Result checked(cuda::Status status, const char* what) const;
  std::byte* buffer(std::uint64_t chunk) const { return memory_ + chunk % buffers * chunk_bytes; }
  std::byte* word(std::size_t i) const { return memory_ + buffers * chunk_bytes + i * 64; }
  std::atomic<std::uint64_t>& go() const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(word(0));
  }
  std::uint64_t done() const { return read(1); }     ///< chunks that the stream has copied
  std::uint64_t reached() const { return read(2); }  ///< chunks whose memory may be written
  std::uint64_t read(std::size_t i) const {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(word(i))->load(
        std::memory_order_acquire);
  }
  std::byte* place(std::uint64_t chunk) const;
  bool may_start() const;
  Result finish(std::uint64_t found);

  std::shared_ptr<const gpu::Device> device_;
  const std::uint32_t peer_;
  const bool is_send_;
  std::byte* memory_ = nullptr;
  std::optional<gpu::Pinned> pinned_;
  cuda::Stream stream_ = nullptr;
  cuda::Event event_ = nullptr;
  std::uint64_t last_from_pool_ = 0;  ///< last chunk sent in place and not yet waited for; 0: none
  std::uint64_t enqueued_ = 0;        ///< chunks since the channel was made
  std::uint64_t started_ = 0, over_ = 0;  ///< chunks whose messages have started, have ended
  std::deque<Chunk> chunks_;              ///< announced and not over; the first is number `over_`
  std::deque<penstock_request_t*> requests_;
};

}  // namespace penstock::nccl
