// The parts of the receiving end of a channel, as the forms of transfer use them.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "transport/deferral.hpp"
#include "transport/rendezvous_put.hpp"
#include "transport/rx_cells.hpp"
#include "transport/rx_message.hpp"
#include "transport/rx_ring.hpp"
#include "transport/settings.hpp"
#include "transport/transfer.hpp"

namespace penstock::transport {

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

/// The sender and the place of a channel, from its checked header.
struct RxOrigin {
  RxOrigin(const ChannelHeader& header, std::uint64_t at)
      : source(header.source),
        source_generation(header.source_generation),
        intra_node(header.intra_node != 0),
        offset(at),
        previous(header.previous * channel_alignment),
        lines_before(header.lines_before) {}

  Peer source;
  std::uint32_t source_generation;
  bool intra_node;  ///< the sender is on this node
  std::uint64_t offset;
  std::uint64_t previous;      ///< offset of the sender's previous channel; 0: none
  std::uint32_t lines_before;  ///< lines that were sent there
};

/// The credits as last published.
struct CreditsReturned {
  std::uint64_t lines = 0, cells = 0;
  std::uint32_t error = 0;
};

/// A rendezvous get in the midst.
struct GetProgress {
  MessageLine line{};
  const std::byte* at = nullptr;
  std::uint64_t pieces = 0;  ///< pieces known to be at the device
};

struct RxParts {
  RxParts(RxContext& context, const ChannelHeader& header, std::uint64_t offset,
          EndpointStats& counts);

  /// Reports the message to matching and gets a buffer. False: the message stays in the pool for
  /// now. `deferrable`: false for an eager message, whose lines were fetched with the first one and
  /// would block the lines behind them.
  bool ask_for_buffer(EndpointCallbacks& callbacks, bool deferrable);
  /// The message has begun: further polls call Transfer::receive.
  void begin(Form form) { transfer = transfer_of(form); }
  /// Copies the next bytes of the message.
  void deliver(const std::byte* from, std::uint64_t bytes);
  /// The whole message is here. Reports it.
  void finish();
  void report_failure(const Error& error);
  void count(std::uint64_t bytes) {
    ++consumed_messages;
    ++counts.messages_received;
    counts.bytes_received += bytes;
  }
  /// For a look that found nothing; false.
  bool count_retry();
  /// The sender wrote something impossible; false.
  bool broken(std::string text);
  bool broken_line(const MessageLine& line);
  /// The closing sender has withdrawn a message; false.
  bool end_channel();
  /// With a store fence.
  void return_credits();
  /// The caller does the store fence.
  void publish_credits();

  RxContext& context;
  EndpointStats& counts;
  coherence::Memory memory;
  std::byte* base;
  RxOrigin origin;
  RxRing ring;
  RxCells cells;
  RxMessage message;
  Deferral deferral;
  ClearToSendGrant clear_to_send;
  GetProgress get;
  CreditsReturned credits;
  const Transfer* transfer = nullptr;  ///< of the message being received; null: none
  std::uint32_t consumed_messages, announced_messages;
  bool ended = false;  ///< no more deliveries, no more stores to the channel
  std::string fault;   ///< the impossible data that the sender wrote; "" if none
};

}  // namespace penstock::transport
