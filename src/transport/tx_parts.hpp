// The parts of the sending end of a channel, as the forms of transfer use them.
#pragma once

#include <vector>

#include "transport/announcer.hpp"
#include "transport/rendezvous_put.hpp"
#include "transport/resizer.hpp"
#include "transport/send_list.hpp"
#include "transport/settings.hpp"
#include "transport/streams.hpp"
#include "transport/tx_cells.hpp"
#include "transport/tx_memory.hpp"
#include "transport/tx_ring.hpp"

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

/// The codes that a receiver has sent with its credits.
struct ErrorsSeen {
  std::uint32_t seen = 0, taken = 0;  ///< as last read, and as last returned
};

struct TxParts {
  TxParts(TxContext& context_in, EndpointStats& counts_in, const coherence::Memory& memory_in,
          const TxRing& ring_in, const MailboxWords& words)
      : context(context_in),
        counts(counts_in),
        memory(memory_in),
        ring(ring_in),
        cells(memory_in),
        announcer(memory_in, words) {}

  /// Starts the parts anew when the ring has begun, in new memory.
  void begin();
  bool waiting() const { return !queue.empty() || !delivering.empty(); }
  /// True if the ring has so many free lines; moves to a larger one where that helps.
  bool room(std::uint64_t lines);
  /// True if there is a free cell.
  bool cell_room() { return cells.have_room() || cell_room_after_look(); }
  /// As cell_room(), after it has read the credits.
  bool cell_room_after_look();
  /// Reads what the receiver has consumed. One device access.
  void refresh_credits();
  /// True if the receiver has consumed everything that can still arrive. One device access.
  bool consumed();
  void break_off();
  /// Announces a message whose first line is written.
  void announce() {
    announcer.announce(ring.offset(), ring.nonce(), context.coarse_ns);
    resizer.note_message(*this, ring.head());
  }
  void count(const Header& header) {
    ++counts.messages_sent;
    counts.bytes_sent += header.bytes;
  }
  /// Publishes the position if it has changed, or always if `again`. The caller does the store
  /// fence.
  void publish_position(bool again = false);

  TxContext& context;
  EndpointStats& counts;
  coherence::Memory memory;
  TxRing ring;
  TxCells cells;
  Announcer announcer;
  Resizer resizer;
  ClearToSendSeen clear_to_send;
  Streams streams;
  SendList queue;       ///< in order; not yet completely in the pool
  SendList delivering;  ///< in the pool; reported when consumed
  ErrorsSeen errors;
  Error memory_error;       ///< why there are no cells
  bool ended = false;       ///< the receiver delivers no more and stores no more to the channel
  bool refused = false;     ///< the last inject() found no credit
  bool breaks_off = false;  ///< ends a message early, not yet announced
};

}  // namespace penstock::transport
