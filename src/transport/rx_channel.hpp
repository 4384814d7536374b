// The receiving end of a channel: what an endpoint asks of it. The forms of transfer do the work,
// on its parts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "transport/rx_parts.hpp"

namespace penstock::transport {

/// True if the sender of this generation is on this node; nullopt if that is not known now.
using AskIntraNode = std::function<std::optional<bool>(std::uint32_t generation)>;

class RxChannel {
 public:
  /// Opens the channel at `offset`; checks everything in the header that a faulty sender could have
  /// written. Calls `intra_node` only if the header claims to be intra-node. `counts` must outlive
  /// the channel. Errors: wrong_format; mismatch (not for this endpoint, job or node); unavailable
  /// (`intra_node` does not know yet: try again).
  static Result<std::unique_ptr<RxChannel>> open(RxContext& context, std::uint64_t offset,
                                                 Peer source, EndpointStats& counts,
                                                 const AskIntraNode& intra_node);

  Peer source() const { return parts_.origin.source; }
  std::uint32_t source_generation() const { return parts_.origin.source_generation; }
  std::uint64_t offset() const { return parts_.origin.offset; }
  /// Offset of the sender's previous channel, which it keeps until this channel has credits; 0:
  /// none.
  std::uint64_t previous() const { return parts_.origin.previous; }
  /// Lines that were sent on the previous channel; they are received first.
  std::uint32_t lines_before() const { return parts_.origin.lines_before; }
  /// True if this many lines, modulo 2^32, have been taken and no message is half received.
  bool taken(std::uint32_t lines) const {
    return awaits_header() && static_cast<std::uint32_t>(parts_.ring.tail()) == lines;
  }
  /// False if the sender has ended and the memory holds something else.
  bool current() const;

  /// First half of a poll: invalidates the lines that poll() reads next. The endpoint does one load
  /// fence for all its channels.
  void invalidate_window() {
    const Transfer* const transfer = parts_.transfer;
    transfer != nullptr && transfer->prepare != nullptr
        ? transfer->prepare(parts_)
        : parts_.ring.invalidate_window(parts_.ring.tail());
  }
  bool loads_may_be_stale() const { return parts_.memory.loads_may_be_stale(); }
  /// Second half: takes arrived messages, within a budget that leaves time for other channels.
  unsigned poll(EndpointCallbacks& callbacks);
  /// Publishes the credits, with a store fence.
  void return_credits() { parts_.return_credits(); }
  /// Sends an error code to the sender, with the credits.
  void send_error(std::uint32_t code);
  bool credits_due() const {
    return fault().empty() && (parts_.credits.lines != parts_.ring.tail() ||
                               parts_.credits.cells != parts_.cells.next());
  }
  /// True if the word can belong to this channel: its count is near the number of consumed
  /// messages. A channel that a later owner made at this offset begins at a random number.
  bool plausible(std::uint64_t word) const {
    constexpr std::int32_t window = 1 << 13;
    const auto ahead =
        static_cast<std::int32_t>(MailboxWord::announced(word) - parts_.consumed_messages);
    return -window <= ahead && ahead <= window;
  }
  /// Records the sender's last announcement (a mailbox word).
  void announced(std::uint64_t word) { parts_.announced_messages = MailboxWord::announced(word); }
  /// True if the sender may still store to the user's buffer of a half-received message.
  bool cleared() const { return parts_.clear_to_send.is_open(); }
  /// Forbids further stores there.
  void withdraw_clear_to_send();
  /// True if no announced message is missing and none is half received.
  bool quiet() const {
    return awaits_header() && parts_.consumed_messages == parts_.announced_messages;
  }

  /// Why a channel has not moved since the last look. `missing`: lines or cells that the sender had
  /// published are not found here. `credits`: the sender waits for credits.
  enum class Stall { none, missing, credits };
  /// One device access if nothing has moved.
  Stall look_for_stall(std::uint64_t now_ns);
  /// Marks the channel as broken: polls have not found the missing lines or cells.
  void fail_missing();

  /// Describes the impossible data that the sender wrote; "" if none. Later polls do nothing.
  const std::string& fault() const { return parts_.fault; }
  /// Fails a half-received message, for example when the sender has died.
  void fail(const Error& error);

 private:
  RxChannel(RxContext& context, const ChannelHeader& header, std::uint64_t offset,
            EndpointStats& counts)
      : parts_(context, header, offset, counts) {}

  bool awaits_header() const { return parts_.transfer == nullptr; }
  bool poll_header(EndpointCallbacks& callbacks);
  bool advance(EndpointCallbacks& callbacks);

  RxParts parts_;
  struct Progress {
    std::uint64_t tail = 0, cell = 0, got = 0, pieces = 0, ready = 0;
    const Transfer* transfer = nullptr;
    bool operator==(const Progress&) const = default;
  };
  Progress looked_at_;  ///< by look_for_stall()
};

}  // namespace penstock::transport
