// The parts of an endpoint, and the functions that use several of them.
#pragma once

#include <memory>
#include <vector>

#include "base/wait.hpp"
#include "transport/credit_reports.hpp"
#include "transport/damage_watch.hpp"
#include "transport/endpoint_table.hpp"
#include "transport/peers.hpp"
#include "transport/poller.hpp"
#include "transport/publisher.hpp"
#include "transport/transport.hpp"
#include "transport/tx_memory.hpp"

namespace penstock::transport {

struct Endpoint::Impl {
  Impl(arena::Arena& arena, EndpointTable table_in, EndpointCallbacks& callbacks_in,
       const Settings& settings_in, const Address& self_in);

  // endpoint.cpp
  Result<TxChannel*> channel_to(Peer to);
  void deliver_to_self(SendOp* op);
  unsigned progress_tx();
  // progress.cpp
  unsigned progress_rx() { return poller.poll(*callbacks); }
  void idle();
  void prepare(const PostedReceive& posted);
  void look_at_clock();
  void slow_checks(std::uint64_t now);
  void look_around(std::uint64_t now);
  void look_for_faults();
  // peer_ends.cpp
  void prepare_for_channel(Peer source, std::uint32_t generation);
  void watch_peer(Peer peer, std::uint32_t generation, std::uint64_t token);
  void end_rx(Peer source, const Error& error);
  void end_tx(Peer to, PeerFate fate, const Error& error);
  void peer_gone(Peer peer, std::uint32_t generation, PeerFate fate,
                 const std::string& description);
  void predecessor_gone(Peer peer, std::uint32_t generation, PeerFate fate, const Error& error);
  // closing.cpp
  void drain_for_close();
  void abandon_memory_in_use(const Error& error, Peer posted);

  pool::Pool& pool;
  coherence::Memory memory;
  EndpointTable table;
  Settings settings;
  Limits limits;
  Address self;
  EndpointCallbacks* callbacks;
  Options options;
  std::unique_ptr<TxMemory> tx_memory;
  TxContext tx_context;
  RxContext rx_context;
  Peers peers;
  Publisher publisher;
  Poller poller;
  CreditReports credit_reports;
  DamageWatch damage;
  std::vector<Peer> tx_waiting;  ///< channels with queued operations
  /// When progress() does more than poll once.
  struct Pace {
    std::uint32_t idle_polls = 0, calls = 0;
    std::uint32_t looks = 1;  ///< settings.warm_looks if every rank has a core, else 1
    std::uint64_t next_check_ns = 0, next_look_around_ns = 0;
  };
  Pace pace;
};

}  // namespace penstock::transport
