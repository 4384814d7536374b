// One direction between two ranks: a ring of buffers, a stream that copies to or from them, and the
// chunks in flight. A chunk goes in one of three forms, which both ranks know from its length:
// - in a slot of the pool (message_slots.hpp), into which the sender's stream copies and from which
//   the receiver's does. Instead of the chunk the sender's thread sends a note, and the receiver's
//   one sends a note back when the slot is free again;
// - short ones as a message of the host, through staging memory;
// - where the direction has no slots, all of them so. Memory of the program in the pool is then not
//   staged: the stream only signals that it is ready, and waits until it is sent or received.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "gpu/chunk_run.hpp"
#include "gpu/outstanding.hpp"
#include "gpu/pinned.hpp"
#include "nccl/abi.hpp"
#include "nccl/message_slots.hpp"
#include "nccl/outcome.hpp"
#include "penstock/messages.h"

namespace penstock::nccl {

/// A part of a message, of at most Channel::chunk_bytes().
struct ChannelChunk {
  std::byte* data = nullptr;  ///< address on the GPU
  std::uint64_t bytes = 0;
  std::byte* in_pool = nullptr;  ///< this process's address if the chunk lies in the pool; without
                                 ///< slots it is then sent or received in place; else null
};

class Channel {
 public:
  /// Longer chunks go in slots, where there are any. Also the longest message that leaves before it
  /// is received.
  static constexpr std::uint64_t longest_short = 64 << 10;
  /// Of the chunks of a direction that has no slots, if one of its ranks has a GPU.
  static constexpr std::uint64_t longest_staged = 1 << 20;

  /// `slot_bytes`: 0 if the direction has no slots. `key`: the communicator's, which marks notes.
  static Result make(std::shared_ptr<const gpu::Device> device, std::uint32_t peer, bool is_send,
                     std::uint64_t slot_bytes, std::uint64_t key,
                     std::unique_ptr<Channel>& channel);
  /// Precondition: the stream is idle, or open() was called.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  std::uint32_t peer() const { return peer_; }
  bool is_idle() const { return chunks_.empty() && free_.empty(); }
  /// Whether the next chunk waits for a slot that the peer fills, or gives back.
  bool waits_for_slot() const { return !chunks_.empty() && in_slot(chunks_.front()); }
  std::uint64_t chunk_bytes() const { return has_slots() ? slot_bytes_ : longest_staged; }
  /// Whether a message of so many bytes needs slots that take() has not got yet: a rank that has
  /// sent short messages only may have left.
  bool lacks_slots(std::uint64_t bytes) const {
    return has_slots() && bytes > longest_short && !ring_;
  }
  Result take(const SlotRing& ring);

  using Chunk = ChannelChunk;

  // Called by the thread that enqueues. Every chunk is announced, under PointToPoint's lock, before
  // it is enqueued.
  void announce(const Chunk& chunk) { chunks_.push_back(chunk); }
  Result begin_after(Stream user);
  /// Precedes the next `count` chunks: enqueues a signal that the channel may write their memory.
  Result reach(std::uint64_t count);
  /// Whether the stream takes a begin, an end or a launch at once. Errors: the driver's, if the GPU
  /// has failed.
  Result has_room(bool& room) { return has_room_for(operations_of_end, room); }
  /// Whether it takes another chunk, too.
  Result has_room_for_chunk(bool& room) {
    return has_room_for(operations_of_chunk + kept_operations, room);
  }
  /// Errors: the driver's, if the GPU has failed.
  Result check() const;
  /// Enqueues the next chunk on the stream.
  Result enqueue(const Chunk& chunk);
  /// Enqueues the next chunks as one launch, and removes them; not if that cannot take enough.
  Result launch(std::deque<Chunk>& chunks);
  Result end_before(Stream user);

  // Called by the thread that carries messages:
  /// Starts and completes all messages that can proceed. Sets `moved` if any did. `meet`: called
  /// before messages to the peer.
  Result carry(penstock_messenger_t* messenger, const std::function<Result()>& meet, bool& moved);
  /// Releases all waits of the stream, after an error.
  void open() {
    go().store(1ull << 62, std::memory_order_release);
    told().store(1ull << 62, std::memory_order_release);
  }

 private:
  /// Tags of messages: chunks and notes in their place; notes that a slot is free.
  static constexpr std::uint64_t forth = 0, back = 1;
  /// Sent instead of a chunk that lies in a slot.
  struct Note {
    std::uint64_t bytes = 0;
    std::uint64_t mark = 0;  ///< bytes ^ key: no program's 16 bytes are taken for a note
  };
  struct Requests {
    penstock_request_t* chunk = nullptr;  ///< of the chunk's message, or of the note
    penstock_request_t* free = nullptr;   ///< of the note that the slot is free, at the sender
  };
  Channel(std::shared_ptr<const gpu::Device> device, std::uint32_t peer, bool is_send,
          std::uint64_t slot_bytes, std::uint64_t key)
      : device_(std::move(device)),
        peer_(peer),
        is_send_(is_send),
        slot_bytes_(slot_bytes),
        key_(key),
        outstanding_(*device_) {}
  Result allocate();
  Result has_room_for(std::uint64_t operations, bool& room);
  Result counted(Result result, std::uint64_t operations);
  Result wait_for(std::size_t word, std::uint64_t number);
  Result checked(cuda::Status status, const char* what) const;
  bool has_slots() const { return slot_bytes_ != 0; }
  bool in_slot(const Chunk& chunk) const { return has_slots() && chunk.bytes > longest_short; }
  bool in_place(const Chunk& chunk) const { return !has_slots() && chunk.in_pool != nullptr; }
  std::uint64_t buffers() const { return has_slots() ? SlotRing::slots : 2; }
  std::uint64_t staged_bytes() const { return has_slots() ? longest_short : longest_staged; }
  /// Of the buffers, the words, and the ring of launches.
  std::uint64_t memory_bytes() const {
    return buffers() * staged_bytes() + page +
           (has_slots() ? gpu::ChunkRun::entries * sizeof(gpu::ChunkMove) : 0);
  }
  std::byte* buffer(std::uint64_t chunk) const {
    return memory_ + chunk % buffers() * staged_bytes();
  }
  std::byte* word(std::size_t i) const { return memory_ + buffers() * staged_bytes() + i * 64; }
  gpu::ChunkMove* ring_of_launches() const {
    return reinterpret_cast<gpu::ChunkMove*>(word(0) + page);
  }
  /// The copy of the next chunk.
  gpu::ChunkMove move_of(const Chunk& chunk) const;
  std::atomic<std::uint64_t>& word_at(std::size_t i) const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(word(i));
  }
  std::atomic<std::uint64_t>& go() const { return word_at(go_word); }
  /// At the receiver: chunks that are done, and of whose slots the sender knows that they are free.
  std::atomic<std::uint64_t>& told() const { return word_at(told_word); }
  std::uint64_t read(std::size_t i) const { return word_at(i).load(std::memory_order_acquire); }
  std::uint64_t done() const { return read(done_word); }  ///< chunks that the stream has copied
  std::uint64_t reached() const { return read(reached_word); }  ///< ... whose memory may be written
  bool may_start() const;
  Result start(penstock_messenger_t* messenger);
  Result is_done(const penstock_request_t* request, bool& done, std::uint64_t& bytes) const;
  Result finish(std::uint64_t found);
  Result give_back(penstock_messenger_t* messenger, const std::function<Result()>& meet,
                   bool& moved);

  static constexpr std::uint64_t page = 4096;
  static constexpr std::uint64_t operations_of_chunk = 3;  ///< a wait, a copy, a word
  static constexpr std::uint64_t operations_of_end = 2;    ///< a wait, an event
  /// For begins, ends and launches, when the stream takes no more chunks.
  static constexpr std::uint64_t kept_operations = 128;
  static constexpr std::size_t go_word = 0, done_word = 1, reached_word = 2, told_word = 3;

  std::shared_ptr<const gpu::Device> device_;
  const std::uint32_t peer_;
  const bool is_send_;
  const std::uint64_t slot_bytes_;
  const std::uint64_t key_;
  std::optional<SlotRing> ring_;
  std::byte* memory_ = nullptr;
  std::optional<gpu::Pinned> pinned_, pinned_ring_;
  cuda::Stream stream_ = nullptr;
  cuda::Event event_ = nullptr;
  gpu::Outstanding outstanding_;  ///< on the stream
  /// Of chunks since the channel was made.
  struct Counts {
    std::uint64_t enqueued = 0;
    std::uint64_t started = 0, over = 0;  ///< whose messages have started, have ended
    std::uint64_t given_back = 0;         ///< at the receiver: whose buffers are free again
    std::uint64_t last_sent = 0;          ///< the last one sent and not yet waited for; 0: none
  };
  Counts counts_;
  std::deque<Chunk> chunks_;  ///< announced and not over; the first is number `counts_.over`
  std::deque<Requests> requests_;
  /// At the receiver, of the chunks from `given_back` to `over`: whether each lies in a slot. The
  /// request is that of the note that gives it back.
  struct Free {
    bool in_slot = false;
    penstock_request_t* note = nullptr;
  };
  std::deque<Free> free_;
  std::array<Note, SlotRing::slots> notes_{};  ///< by chunk
  std::array<std::uint64_t, SlotRing::slots> freed_{};
};

}  // namespace penstock::nccl
