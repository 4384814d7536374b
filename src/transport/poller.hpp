// Polls an endpoint's mailbox and its active receiving channels.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/pace.hpp"
#include "transport/mailbox.hpp"
#include "transport/peers.hpp"

namespace penstock::transport {

class Poller {
 public:
  /// Called when an endpoint announces a new channel, before it replaces the channel that the
  /// poller has from that slot.
  using OnNewChannel = std::function<void(Peer source, std::uint32_t generation)>;

  Poller(const EndpointTable& table, Peers& peers, RxContext& context, OnNewChannel on_new_channel);

  /// Looks once at the active channels, and at times at a part of the mailbox. Returns the number
  /// of messages and announcements, and of long messages that have advanced.
  unsigned poll(EndpointCallbacks& callbacks);
  /// Call after `polls` consecutive empty polls.
  void idle(std::uint32_t polls);
  void return_all_credits();

  /// Reads the whole mailbox.
  void sweep();
  /// Takes the messages that an ended peer had published, unexpected ones too.
  void drain_closed(Peer source, EndpointCallbacks& callbacks);
  void wake(Peer source);
  void rest(Peer source);
  /// Handles a sender's last announcement again if its channel is not the known one.
  void look_again(Peer source);
  bool has_announced(Peer source) const { return mailbox_.seen(source) != 0; }
  /// Checks the channels of some mailbox words, and at times the directory of the words.
  void audit();
  const std::vector<Peer>& active() const { return active_; }
  /// The senders that moved to channels on which nothing was sent yet, since the last call. They
  /// need credits there while they are open.
  std::vector<Peer> take_moved_senders() { return std::exchange(moved_senders_, {}); }

 private:
  enum class ActivateResult { activated, ignored, retry };
  bool is_due();
  bool has_rung();
  bool is_time_to_sweep();
  void speed_up();
  void slow_down(std::uint64_t lines_looked_at);
  Mailbox::Part next_part();
  void prepare(Mailbox::Part part);
  unsigned sweep(Mailbox::Part part);
  unsigned poll_active(EndpointCallbacks& callbacks);
  void deactivate_quiet(std::uint32_t empty_polls);
  ActivateResult activate(Peer source, std::uint64_t word);
  ActivateResult open(Peer source, std::uint64_t offset, bool follow = true);
  bool previous_is_drained(const RxChannel& next);
  void ack_move(Peer source);
  std::optional<bool> is_intra_node(Peer source, std::uint32_t generation) const;

  const EndpointTable& table_;
  Peers& peers_;
  RxContext& context_;
  coherence::Memory memory_;
  coherence::Memory intra_node_memory_;  ///< for lines that only this node uses
  OnNewChannel on_new_channel_;
  Mailbox mailbox_;
  std::vector<Peer> active_;            ///< channels polled each time
  std::vector<Peer> moved_senders_;     ///< see take_moved_senders()
  std::size_t first_ = 0;               ///< index of the channel polled first
  std::uint64_t resting_since_ns_ = 0;  ///< no active channel since then; 0: not known yet
  std::uint64_t next_bell_ns_ = 0;      ///< next look at the bell alone, at the slow pace
  std::uint64_t next_sweep_ns_ = 0;     ///< while no channel is active, or nothing arrives
  std::uint64_t quiet_since_ns_ = 0;  ///< nothing arrived since then at the slow pace; 0: not known
  bool watches_bell_ = false;         ///< only the bell, and a rare sweep
  base::Pace pace_;
  std::uint32_t polls_ = 0, audits_ = 0;
};

}  // namespace penstock::transport
