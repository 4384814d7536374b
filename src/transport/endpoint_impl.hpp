// The parts of an endpoint.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/wait.hpp"
#include "transport/endpoint_table.hpp"
#include "transport/peer_statistics.hpp"
#include "transport/peer_watch.hpp"
#include "transport/rx_channel.hpp"
#include "transport/transport.hpp"
#include "transport/tx_channel.hpp"

namespace penstock::transport {

struct Endpoint::Impl {
  struct PeerState {
    Address address{};
    bool resolved = false;  ///< by resolve(): may be sent to
    /// Of endpoints in the slot up to this generation was said that they have gone or are broken:
    /// nothing is sent to them, and nothing that comes of them is believed.
    std::uint32_t dead_generation = 0;
    bool active = false;  ///< its channel is in active_rx
    std::unique_ptr<TxChannel> tx;
    std::unique_ptr<RxChannel> rx;
    std::string description;  ///< of the dead
    EndpointStats counts;     ///< exchanged with the endpoint of this generation
    std::uint32_t counted_generation = 0;
    std::uint32_t polls_in_vain = 0;  ///< of the active channel, in a row
    bool misses = false;              ///< what its sender says is in the pool, as seen last

    /// Generations are counted around.
    bool gone(std::uint32_t generation) const {
      return dead_generation != 0 && static_cast<std::int32_t>(generation - dead_generation) <= 0;
    }
    bool dead() const { return gone(address.generation); }
    /// The receiving channel may be of a new owner of the slot, who was not resolved yet.
    bool hears() const { return rx && !gone(rx->source_generation()); }
  };

  /// Lines of the mailbox that are looked at together; none when `lines` is 0.
  struct MailboxPart {
    std::uint32_t first = 0, lines = 0;
  };

  Impl(arena::Arena& arena_in, EndpointTable table_in, EndpointCallbacks& callbacks_in,
       const Settings& settings_in, const Address& self_in);
  ~Impl();

  // sending
  Result<TxChannel*> channel_to(Peer to);
  void drop_tx(Peer to, PeerFate fate);
  void deliver_to_self(SendOp* op);
  unsigned progress_tx();
  // receiving
  unsigned progress_rx();
  void prepare_poll(MailboxPart part);
  unsigned poll_active();
  unsigned sweep_mailbox(MailboxPart part);
  MailboxPart next_part();
  bool sweep_is_due();
  MailboxPart whole_mailbox() const { return {0, mailbox_lines}; }
  enum class Heard { yes, nothing, again };
  Heard activate(Peer source, std::uint64_t word);
  Heard open_rx(Peer source, std::uint64_t offset);
  std::optional<bool> is_intra_node(Peer source, std::uint32_t generation) const;
  void deactivate_quiet(std::uint32_t polls_in_vain);
  void return_all_credits();
  void idle();
  void invalidate(const PostedReceive& posted);
  void look_at_clock();
  // peers
  void slow_checks(std::uint64_t now);
  void audit_mailbox();
  void look_for_faults();
  void look_for_damage(std::uint64_t now);
  void look_for_damage(Peer source, std::uint64_t now);
  void wake(Peer source);
  void rest(Peer source);
  void end_rx(Peer source, const Error& error);
  void take_the_last(PeerState& peer);
  void watch_peer(Peer peer, std::uint32_t generation, std::uint64_t token);
  void peer_gone(Peer peer, std::uint32_t generation, PeerFate fate,
                 const std::string& description);
  void predecessor_gone(Peer peer, std::uint32_t generation, PeerFate fate, const Error& error);
  EndpointStats& counts_of(Peer peer, std::uint32_t generation);
  EndpointStats all_counts() const;
  void publish_stats(const EndpointStats& counts);
  void publish_peers();
  void tell_activity(std::uint64_t now, const EndpointStats& counts);
  void tell_awaited(const Awaited& awaited);
  std::string waiting_text() const;
  void drain_for_close();
  bool is_posted(PeerState& peer) const;
  void leave_what_peers_use(const Error& error, Peer posted);
  void tell_troubles();

  arena::Arena& arena;
  pool::Pool& pool;
  coherence::Memory memory;
  coherence::Memory intra_node_memory;  ///< for lines of this node only
  EndpointTable table;
  Settings settings;
  Limits limits;
  Address self;
  EndpointCallbacks* callbacks;
  std::function<void()> while_closing;
  std::uint64_t closing_timeout_ns = 0;
  EndpointStats other_counts;  ///< with oneself, and with earlier endpoints in the slots of peers
  EndpointStats published;     ///< in the process's record
  PeerStatistics peer_statistics;
  Peer next_row = 0;  ///< published next
  std::unique_ptr<TxMemory> tx_memory;
  TxContext tx_context;
  RxContext rx_context;
  PeerWatch watch;
  std::vector<PeerState> peers;
  struct Trouble {
    Peer peer;
    std::uint32_t generation;
    std::optional<std::uint32_t> code;  ///< none: the credits only, which may have been overwritten
    bool operator==(const Trouble&) const = default;
  };
  std::vector<Trouble> troubles;        ///< to be told when the pool's lock is free
  std::vector<Peer> tx_waiting;         ///< channels with queued operations
  std::vector<Peer> active_rx;          ///< channels polled each time
  std::size_t first_rx = 0;             ///< of them, polled first
  std::vector<std::uint64_t> seen;      ///< mailbox words as last seen
  std::vector<std::uint64_t> mailbox;   ///< its words, while they are looked at
  std::uint32_t mailbox_lines = 1;      ///< in use
  std::uint32_t next_mailbox_line = 0;  ///< looked at next
  std::uint64_t resting_since_ns = 0;   ///< without an active channel; 0: not known yet
  std::uint64_t next_sweep_ns = 0;      ///< where no channel is active
  std::uint32_t polls = 0;
  std::uint32_t idle_polls = 0;
  std::uint32_t looks = 1;   ///< settings.warm_looks when every rank has a core, else 1
  std::uint32_t checks = 0;  ///< slow checks so far
  std::uint32_t calls = 0;
  std::uint32_t audited = 0;  ///< next mailbox word to audit
  std::uint64_t next_check_ns = 0;
  std::uint64_t next_damage_look_ns = 0;
  Peer next_damage_look = 0;
  std::uint64_t moved = 0, moved_ns = 0;  ///< messages so far, and when that last changed
  std::string activity;                   ///< as published
  bool asks_what_is_awaited = false;
};

}  // namespace penstock::transport
