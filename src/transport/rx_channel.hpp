// The receiving end of a channel.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "transport/layout.hpp"
#include "transport/settings.hpp"
#include "transport/transport.hpp"

namespace penstock::transport {

/// True if the sender of this generation is on this node; nullopt if that is not known now.
using AskIntraNode = std::function<std::optional<bool>(std::uint32_t generation)>;

/// With a backlog, this many lines beyond the current one are prefetched.
inline constexpr std::uint64_t lines_ahead = 32;

/// State that all receiving channels of an endpoint share.
struct RxContext {
  pool::Pool& pool;
  coherence::Memory memory;
  const Settings& settings;
  Address self;
  std::uint64_t no_deferral_until_ns = 0;  ///< no message is deferred before this time
  bool deferred = false;                   ///< a message was deferred since this was last cleared
  std::uint64_t next_look_ns = 0;
  /// Payload that this poll of all channels may still take; limits the time of one poll.
  std::int64_t bytes_left = std::numeric_limits<std::int64_t>::max();
  /// Owners of receive buffers get reports; false while the endpoint closes.
  bool reports = true;
  bool has_budget() const { return bytes_left > 0; }
  void took(std::uint64_t bytes) { bytes_left -= static_cast<std::int64_t>(bytes); }

  /// Pool offset of a long message's receive buffer. If it is not known, checks at most every 100
  /// ms whether this process has attached since; that takes a lock.
  std::optional<std::uint64_t> place_of(const std::byte* receive_buffer, std::uint64_t bytes);
};

class RxChannel {
 public:
  /// Opens the channel at `offset`; checks everything in the header that a faulty sender could have
  /// written. Calls `intra_node` only if the header claims to be intra-node. `counts` must outlive
  /// the channel. Errors: wrong_format; mismatch (not for this endpoint, job or node); unavailable
  /// (`intra_node` does not know yet: try again).
  static Result<std::unique_ptr<RxChannel>> open(RxContext& context, std::uint64_t offset,
                                                 Peer source, EndpointStats& counts,
                                                 const AskIntraNode& intra_node);

  Peer source() const { return source_; }
  std::uint32_t source_generation() const { return source_generation_; }
  std::uint64_t offset() const { return offset_; }
  /// Offset of the sender's previous channel, which it keeps until this channel has credits; 0:
  /// none.
  std::uint64_t previous() const { return previous_; }
  /// Lines that were sent on the previous channel; they are received first.
  std::uint32_t lines_before() const { return lines_before_; }
  /// True if this many lines, modulo 2^32, have been taken and no message is half received.
  bool taken(std::uint32_t lines) const {
    return stage_ == Stage::header && static_cast<std::uint32_t>(tail_) == lines;
  }
  /// False if the sender has ended and the memory holds something else.
  bool current() const;

  /// First half of a poll: invalidates the lines that poll() reads next. The endpoint does one load
  /// fence for all its channels.
  void invalidate_window();
  bool loads_may_be_stale() const { return memory_.loads_may_be_stale(); }
  /// Second half: takes arrived messages, within a budget that leaves time for other channels.
  unsigned poll(EndpointCallbacks& callbacks);
  /// Publishes the credits, with a store fence.
  void return_credits();
  /// Sends an error code to the sender, with the credits.
  void send_error(std::uint32_t code);
  bool credits_due() const {
    return fault_.empty() && (credited_lines_ != tail_ || credited_cells_ != cell_);
  }
  /// True if the word can belong to this channel: its count is near the number of consumed
  /// messages. A channel that a later owner made at this offset begins at a random number.
  bool plausible(std::uint64_t word) const {
    constexpr std::int32_t window = 1 << 13;
    const auto ahead = static_cast<std::int32_t>(MailboxWord::announced(word) - consumed_messages_);
    return -window <= ahead && ahead <= window;
  }
  /// Records the sender's last announcement (a mailbox word).
  void announced(std::uint64_t word) { announced_ = MailboxWord::announced(word); }
  /// True if the sender may still store to the user's buffer of a half-received message.
  bool cleared() const { return clear_to_send_.until != 0; }
  /// Forbids further stores there.
  void withdraw_clear_to_send();
  /// True if no announced message is missing and none is half received.
  bool quiet() const { return stage_ == Stage::header && consumed_messages_ == announced_; }

  /// Why a channel has not moved since the last look. `missing`: lines or cells that the sender had
  /// published are not found here. `credits`: the sender waits for credits.
  enum class Stall { none, missing, credits };
  /// One device access if nothing has moved.
  Stall look_for_stall(std::uint64_t now_ns);
  /// Marks the channel as broken: polls have not found the missing lines or cells.
  void fail_missing();

  /// Describes the impossible data that the sender wrote; "" if none. Later polls do nothing.
  const std::string& fault() const { return fault_; }
  /// Fails a half-received message, for example when the sender has died.
  void fail(const Error& error);

 private:
  enum class Stage { header, eager, pipelined, rendezvous_get };
  RxChannel(RxContext& context, const ChannelHeader& header, std::uint64_t offset,
            EndpointStats& counts);

  bool poll_header(EndpointCallbacks& callbacks);
  bool ask_for_buffer(EndpointCallbacks& callbacks, bool deferrable);
  bool may_defer() const;
  bool may_wait_for_room() const;
  bool begin_eager(const MessageLine& line);
  bool check_cells(const MessageLine& line);
  bool begin_pipelined(const MessageLine& line);
  bool check_get(const MessageLine& line);
  bool begin_get(const MessageLine& line);
  bool continue_eager();
  bool continue_pipelined();
  bool continue_get();
  std::uint64_t get_ready();
  bool still_in_place() const;
  std::uint32_t ready_cells();
  void take_cells(std::uint32_t count);
  bool take_put(std::uint32_t count);
  void begin_clear_to_send(bool asked);
  bool may_extend_clear_to_send() const;
  void extend_clear_to_send();
  void end_clear_to_send();
  void deliver(const std::byte* from, std::uint64_t bytes);
  void set_receive_buffer(const ReceiveBuffer& receive_buffer);
  void report_failure(const Error& error);
  void finish();
  void fetch(std::uint64_t until);
  void freshen(std::uint64_t until);
  void publish_credits();
  void drop_consumed();
  void count(std::uint64_t bytes);
  bool count_retry() {
    ++counts_.retries;
    return false;
  }
  bool broken(std::string text);
  bool end_channel();

  const std::byte* line_at(std::uint64_t number) const { return base_ + layout_.line(number); }
  /// The line that holds the next cell's flag.
  const std::byte* flag_line() const {
    return base_ + ChannelLayout::flag_line(cell_ % cell_count_);
  }

  RxContext& context_;
  EndpointStats& counts_;
  coherence::Memory memory_;
  std::uint64_t offset_;
  std::byte* base_;
  ChannelLayout layout_;
  std::uint32_t flag_count_;
  std::uint64_t nonce_;
  Peer source_;
  std::uint32_t source_generation_;
  bool intra_node_;  ///< the sender is on this node
  std::uint64_t previous_;
  std::uint32_t lines_before_;

  std::uint64_t tail_ = 0;         ///< lines consumed
  std::uint64_t fresh_until_ = 0;  ///< lines [tail_, fresh_until_) were invalidated and load-fenced
  std::uint64_t fetched_until_ = 0;  ///< lines [tail_, fetched_until_) were prefetched
  std::uint64_t cached_from_ = 0;    ///< lines [cached_from_, tail_) may still be cached
  std::uint64_t window_ = 1;         ///< lines looked at together by a poll
  bool backlog_ = false;             ///< the last poll found something
  std::uint64_t credited_lines_ = 0, credited_cells_ = 0;
  std::uint32_t error_ = 0;  ///< as last published
  std::uint32_t consumed_messages_, announced_;

  // the message being received
  Stage stage_ = Stage::header;
  Header header_;
  std::uint64_t deferred_since_ns_ = 0;  ///< 0: not deferred
  std::uint32_t undeferred_left_ = 0;    ///< next unexpected messages that are not deferred
  ReceiveBuffer receive_buffer_;
  std::byte* direct_ = nullptr;  ///< its only buffer, if that is long enough
  /// Holds an eager message whose receive buffer is scattered or too short. Each channel has its
  /// own: another channel may begin a message while the rest of this one is awaited.
  std::vector<std::byte> staging_;
  std::uint64_t got_ = 0;
  bool acknowledge_ = false;
  // pipelined cells
  const std::byte* cells_ = nullptr;
  std::uint32_t cell_bytes_ = 0, cell_count_ = 0;
  std::uint64_t cell_ = 0;               ///< number of the next cell; never wraps
  std::uint64_t ready_ = 0;              ///< cells known to be complete
  bool stored_ = false;                  ///< these lie in the receive buffer
  bool broken_off_ = false;              ///< the sender ended the message early
  bool ended_ = false;                   ///< no more deliveries, no more stores to the channel
  ClearToSend clear_to_send_;            ///< of this message
  std::uint64_t clear_to_send_end_ = 0;  ///< bytes that will be cleared to send in all
  // rendezvous get
  MessageLine get_line_{};
  const std::byte* get_ = nullptr;
  std::uint64_t pieces_ = 0;  ///< pieces known to be at the device
  std::string fault_;
  struct Progress {
    std::uint64_t tail = 0, cell = 0, got = 0, pieces = 0, ready = 0;
    Stage stage = Stage::header;
    bool operator==(const Progress&) const = default;
  };
  Progress looked_at_;  ///< by look_for_stall()
};

}  // namespace penstock::transport
