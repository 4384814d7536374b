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

/// True if the sender of this generation is on this node; nullopt when that is not known now.
using AskIntraNode = std::function<std::optional<bool>(std::uint32_t generation)>;

/// With a backlog, so many lines beyond the one that is read are prefetched.
inline constexpr std::uint64_t lines_ahead = 32;

/// State that all receiving channels of an endpoint share.
struct RxContext {
  pool::Pool& pool;
  coherence::Memory memory;
  const Settings& settings;
  Address self;
  std::uint64_t no_deferral_until_ns = 0;  ///< no message is deferred till then
  bool deferred = false;                   ///< one was, since this was last cleared
  std::uint64_t next_look_ns = 0;
  /// Payload that this poll of all channels may still take: the other channels and the caller need
  /// their turn.
  std::int64_t bytes_left = std::numeric_limits<std::int64_t>::max();
  /// Messages are reported to the owners of receive buffers; not while the endpoint closes.
  bool reports = true;
  bool may_go_on() const { return bytes_left > 0; }
  void took(std::uint64_t bytes) { bytes_left -= static_cast<std::int64_t>(bytes); }

  /// Pool offset of a long message's receive buffer. Where it is not known, checks whether this
  /// process has attached since (which takes a lock), at most every 100 ms.
  std::optional<std::uint64_t> place_of(const std::byte* receive_buffer, std::uint64_t bytes);
};

class RxChannel {
 public:
  /// Checks everything in the header that a faulty sender could have written. `intra_node` is asked
  /// only of a sender that counts on it. Errors: wrong_format; mismatch (not for this endpoint,
  /// this job or this node); unavailable (`intra_node` cannot tell: look again). `counts` of what
  /// is received outlive the channel.
  static Result<std::unique_ptr<RxChannel>> open(RxContext& context, std::uint64_t offset,
                                                 Peer source, EndpointStats& counts,
                                                 const AskIntraNode& intra_node);

  Peer source() const { return source_; }
  std::uint32_t source_generation() const { return source_generation_; }
  std::uint64_t offset() const { return offset_; }
  /// Offset of the channel that the sender had before, and keeps until there are credits here; 0:
  /// there was none.
  std::uint64_t previous() const { return previous_; }
  /// Lines that were sent there: they come first.
  std::uint32_t lines_before() const { return lines_before_; }
  /// True if so many lines, modulo 2^32, have been taken, and no message is half received.
  bool taken(std::uint32_t lines) const {
    return stage_ == Stage::header && static_cast<std::uint32_t>(tail_) == lines;
  }
  /// False when the sender has gone and its memory holds something else.
  bool current() const;

  /// First half of a poll: invalidates the lines that poll() reads next. The endpoint does a load
  /// fence once for all its channels.
  void invalidate_window();
  bool loads_may_be_stale() const { return memory_.loads_may_be_stale(); }
  /// Second half: takes arrived messages, within a budget that leaves time for other channels.
  unsigned poll(EndpointCallbacks& callbacks);
  /// Publishes the credits, with a store fence.
  void return_credits();
  /// Reports the code to the sender, with the credits.
  void tell_trouble(std::uint32_t code);
  bool credits_due() const {
    return fault_.empty() && (credited_lines_ != tail_ || credited_cells_ != cell_);
  }
  /// True if the word can be this channel's: its count is near what was consumed. A channel that a
  /// later owner made at this offset begins at a random number.
  bool plausible(std::uint64_t word) const {
    constexpr std::int32_t window = 1 << 13;
    const auto ahead = static_cast<std::int32_t>(MailboxWord::announced(word) - consumed_messages_);
    return -window <= ahead && ahead <= window;
  }
  /// Records the sender's last announcement (a mailbox word).
  void announced(std::uint64_t word) { announced_ = MailboxWord::announced(word); }
  /// True if the sender may still store more of a half-received message into the user's buffer.
  bool cleared() const { return clear_to_send_.until != 0; }
  /// Forbids the sender to begin further stores there.
  void withdraw_clear_to_send();
  /// True if no announced message is missing and none is half received.
  bool quiet() const { return stage_ == Stage::header && consumed_messages_ == announced_; }

  /// Why a channel has not moved since the last look. `missing`: lines or cells that the sender had
  /// published are not found here. `credits`: the sender itself waits for credits.
  enum class Stall { none, missing, credits };
  /// One device access if nothing has moved.
  Stall look_for_stall(std::uint64_t now_ns);
  /// Declares the channel broken: polls have not found the missing lines or cells.
  void give_up_missing();

  /// Describes the impossible data that the sender wrote; "" if none. After it polls do nothing.
  const std::string& fault() const { return fault_; }
  /// Fails a half-received message, as when the sender has died.
  void fail(const Error& error);

 private:
  enum class Stage { header, eager, pipelined, rendezvous_get };
  RxChannel(RxContext& context, const ChannelHeader& header, std::uint64_t offset,
            EndpointStats& counts);

  bool poll_header(EndpointCallbacks& callbacks);
  bool ask_for_buffer(EndpointCallbacks& callbacks, bool deferrable);
  bool may_be_held() const;
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
  void land(const ReceiveBuffer& receive_buffer);
  void report_failure(const Error& error);
  void finish();
  void fetch(std::uint64_t until);
  void freshen(std::uint64_t until);
  void publish_credits();
  void drop_consumed();
  void count(std::uint64_t bytes);
  bool in_vain() {
    ++counts_.retries;
    return false;
  }
  bool broken(std::string text);
  bool end_for_good();

  const std::byte* line_at(std::uint64_t number) const { return base_ + layout_.line(number); }
  /// The line of flags that holds the next cell's.
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
  std::uint32_t trouble_ = 0;  ///< as last published
  std::uint32_t consumed_messages_, announced_;

  // the message being received
  Stage stage_ = Stage::header;
  Header header_;
  std::uint64_t held_since_ns_ = 0;  ///< 0: it is not deferred
  std::uint32_t not_to_hold_ = 0;    ///< unexpected messages that are taken at once
  ReceiveBuffer receive_buffer_;
  std::byte* direct_ = nullptr;  ///< its one buffer, when it is long enough
  /// Holds an eager message whose receive buffer is scattered or too short. Each channel has its
  /// own: while the rest of such a message is awaited, another channel may begin one.
  std::vector<std::byte> staging_;
  std::uint64_t got_ = 0;
  bool acknowledge_ = false;
  // pipelined cells
  const std::byte* cells_ = nullptr;
  std::uint32_t cell_bytes_ = 0, cell_count_ = 0;
  std::uint64_t cell_ = 0;               ///< next cell, counted for ever
  std::uint64_t ready_ = 0;              ///< cells known to be complete
  bool stored_ = false;                  ///< the ready ones lie in the receive buffer
  bool broken_off_ = false;              ///< the sender has broken the message off
  bool ended_ = false;                   ///< nothing more is delivered, or stored to the channel
  ClearToSend clear_to_send_;            ///< of this message
  std::uint64_t clear_to_send_end_ = 0;  ///< bytes of it that will be cleared to send in all
  // rendezvous get
  MessageLine get_line_{};
  const std::byte* get_ = nullptr;
  std::uint64_t pieces_ = 0;  ///< known to be at the device
  std::string fault_;
  struct Progress {
    std::uint64_t tail = 0, cell = 0, got = 0, pieces = 0, ready = 0;
    Stage stage = Stage::header;
    bool operator==(const Progress&) const = default;
  };
  Progress looked_at_;  ///< by look_for_stall()
};

}  // namespace penstock::transport
