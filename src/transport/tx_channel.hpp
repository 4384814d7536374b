// The sending end of a channel.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/layout.hpp"
#include "transport/settings.hpp"
#include "transport/transport.hpp"
#include "transport/tx_memory.hpp"

namespace penstock::transport {

/// Pause after the pool had no room for optional memory, or its lock was not free.
inline constexpr std::uint64_t full_pool_ns = 1'000'000'000;

/// State that all sending channels of an endpoint share.
struct TxContext {
  pool::Pool& pool;
  coherence::Memory memory;
  const Settings& settings;
  TxMemory& tx_memory;
  Address self;
  std::uint64_t coarse_ns = 0;     ///< base::coarse_ns() at the last send or progress
  std::uint64_t polls = 0;         ///< calls of progress so far
  std::vector<std::byte> staging;  ///< gathers scattered payload, at most one cell
};

class TxChannel {
 public:
  /// `mailbox`: words in the receiver's mailbox. `counts` of sent messages must outlive the
  /// channel. `intra_node`: the peer is on this node. Errors: no_space, invalid_argument (pool too
  /// large).
  static Result<std::unique_ptr<TxChannel>> make(TxContext& context, const Address& peer,
                                                 const MailboxWords& mailbox, EndpointStats& counts,
                                                 bool intra_node);

  /// False: no credit now, or other messages are queued; the position tells the receiver that this
  /// end waits. Errors: no_space.
  Result<bool> inject(const Header& header, const void* payload);
  /// True: complete; false: queued. Errors: no_space (the first pipelined message needs cells).
  Result<bool> send(SendOp* op);
  /// True if the op was queued and had not begun.
  bool cancel(SendOp* op);
  /// All queued ops that have not begun and that `wanted` accepts, in order. Null: none.
  SendOp* take_back(bool (*wanted)(const SendOp&));
  /// Advances queued operations and reports those that complete. Returns the number of events.
  unsigned advance(EndpointCallbacks& callbacks);
  bool waiting() const { return queue_.first || delivering_.first; }
  /// Reports operations that the receiver has consumed. One device access if any operation waits
  /// for that.
  unsigned notify_delivered(EndpointCallbacks& callbacks);
  /// The code that RxChannel::send_error published since the last call. One device access.
  std::uint32_t take_error();
  /// Gives memory of an idle channel back. Call it periodically.
  void give_back_idle(std::uint64_t now_ns);
  /// Publishes the channel's position if it has changed. The caller does the store fence.
  void publish_position();
  /// True if nothing has moved since the last call and some data are not consumed: lines that the
  /// receiver reads may have been overwritten. One device access in that case.
  bool is_stuck();
  /// Publishes header, mailbox word and position again. `mailbox`: from the table, looked up anew.
  void repair(const MailboxWords& mailbox);
  /// True if the receiver has consumed everything that can still arrive. One device access.
  bool consumed();
  void fail_all(EndpointCallbacks& callbacks, const Error& error);
  /// Drops queued operations without a report: their buffers may be freed already. If a message was
  /// half sent, consumed() tells the receiver when there is room.
  void abandon();
  /// The last call, when the receiver has ended. `quiescent`: it closed in order, so none of its
  /// credits can still arrive.
  void give_memory_back(bool quiescent);

 private:
  struct List {
    SendOp* first = nullptr;
    SendOp* last = nullptr;
    void push(SendOp* op);
    void push_urgent(SendOp* op);
    SendOp* pop();
  };
  enum class Started { complete, partly, no_credit, no_memory };

  TxChannel(TxContext& context, std::byte* at, const ChannelLayout& layout,
            const MailboxWords& mailbox, EndpointStats& counts, bool intra_node);
  static std::uint64_t bytes_of(const ChannelLayout& layout);
  void begin(std::uint32_t ring_lines);
  // moving.cpp
  bool is_small() const { return layout_.ring_lines() < context_.settings.ring_lines; }
  bool is_smallest() const { return layout_.ring_lines() == context_.settings.first_ring_lines; }
  void note_lap();
  void want_larger();
  void want_cells();
  /// False while the receiver has yet to move to a small ring; that may take until the next
  /// message.
  bool may_grow() const {
    return is_small() && previous_.at == nullptr && context_.coarse_ns >= no_larger_until_ns_;
  }
  bool try_to_move();
  bool move(std::uint32_t ring_lines);
  void read_previous_credits(std::uint64_t lines_consumed);
  bool previous_consumed() const;
  bool cells_are_ready();
  void give_cells_back();
  Result<bool> inject_now(const Header& header, const void* payload);
  Started start(SendOp* op);
  Started start_pipelined(SendOp* op);
  Started start_get(SendOp* op, std::uint64_t offset);
  void put_inline(const Header& header, const void* payload, std::uint8_t flags);
  void put_eager(const Header& header, const std::byte* payload, std::uint8_t flags);
  void put_pipelined_line(const SendOp& op, std::uint64_t ready);
  std::byte* next_cell() const;
  void put_cell(const SendOp& op, std::byte* to, std::uint64_t bytes);
  void announce_cells(std::uint64_t first, bool stored);
  bool push_cells(SendOp* op);
  std::byte* place_of_next(const SendOp& op, std::uint64_t bytes);
  bool looks_for_clear_to_send(const SendOp& op) const;
  void accept(const ClearToSend& clear_to_send);
  bool requests_to_send(const SendOp& op) const;
  /// `needed`: waits for the pool's lock as long as necessary.
  Result<void> make_cells(bool needed);
  void write_get_line(const SendOp& op, std::uint64_t offset, std::uint64_t piece_bytes);
  std::optional<std::uint64_t> place_of(const SendOp& op) const;
  void withdraw_get();
  bool streams();
  void announce();
  bool is_eager(std::uint64_t bytes);
  bool room(std::uint64_t lines);
  bool cell_room();
  void break_off();
  void refresh_credits();
  void count(const Header& header);

  std::byte* line_at(std::uint64_t number) const { return base_ + layout_.line(number); }
  std::byte* flag_at(std::uint64_t cell) const {
    return base_ + ChannelLayout::flag(cell % cell_count_);
  }

  TxContext& context_;
  EndpointStats& counts_;
  coherence::Memory memory_;
  std::byte* base_;
  ChannelLayout layout_;
  bool ended_ = false;  ///< the receiver delivers no more and stores no more to the channel
  std::uint64_t nonce_ = 0;
  std::uint64_t head_ = 0;      ///< lines written
  std::uint64_t consumed_ = 0;  ///< lines known to be consumed
  MailboxWords mailbox_;
  std::uint64_t announced_ns_ = 0;  ///< time of the last announcement, by the coarse clock
  std::uint64_t channel_offset_;
  std::uint32_t announced_ = 0;
  bool refused_ = false;                            ///< the last inject() found no credit
  bool breaks_off_ = false;                         ///< ends a message early, not yet announced
  std::uint32_t error_seen_ = 0, error_taken_ = 0;  ///< as last read, and as last returned
  std::uint64_t sent_at_poll_ = ~0ull;              ///< TxContext::polls at the last eager message
  // sizes
  struct Previous {
    std::byte* at = nullptr;
    std::uint64_t bytes = 0, nonce = 0;
    std::uint32_t error = 0;
    bool consumed = false;  ///< the receiver consumed everything sent there
    ChannelHeader header{};
  };
  Previous previous_;  ///< the previous channel, while the receiver may still store there
  std::uint32_t previous_error_ = 0;  ///< last one read there, not returned yet
  bool wants_larger_ = false, wants_cells_ = false;
  std::uint64_t next_lap_ = 0;  ///< the lap ends at this line number
  std::uint64_t lap_ns_ = 0, no_larger_until_ns_ = 0, next_idle_look_ns_ = 0;
  ChannelHeader header_{};
  PositionLine position_;        ///< as published
  std::uint64_t looked_at_ = 0;  ///< `head_` at the last call of is_stuck()
  // pipelined messages
  std::byte* cells_ = nullptr;
  std::uint32_t cell_bytes_ = 0, cell_count_ = 0;
  std::uint64_t cells_head_ = 0, cells_consumed_ = 0;
  std::uint64_t long_sent_ns_ = 0;       ///< when the last message above `stream_bytes` was sent
  std::uint64_t no_cells_until_ns_ = 0;  ///< for streams, which can do without cells
  Error memory_error_;
  // the pipelined message being sent
  std::uint64_t pipelined_line_ = 0;
  ClearToSend clear_to_send_;           ///< for that message, as last read
  std::uint64_t requested_at_ns_ = 0;   ///< 0: it does not wait for a clear-to-send
  bool expects_clear_to_send_ = false;  ///< the previous message got one
  List queue_;                          ///< in order; not yet completely in the pool
  List delivering_;                     ///< in the pool; reported when consumed
};

}  // namespace penstock::transport
