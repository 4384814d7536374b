// Polls for an endpoint: its mailbox, and the channels on which messages come.
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
  /// Called when a channel of this endpoint has been announced, before the poller replaces the one
  /// it had from that slot.
  using Newcomer = std::function<void(Peer source, std::uint32_t generation)>;

  Poller(const EndpointTable& table, Peers& peers, RxContext& context, Newcomer newcomer);

  /// Looks once at the active channels, and now and then at a part of the mailbox. Returns the
  /// number of messages and announcements, and of long messages that have advanced.
  unsigned poll(EndpointCallbacks& callbacks);
  /// To be called when the last `polls` polls were empty.
  void idle(std::uint32_t polls);
  void return_all_credits();

  /// Reads all of the mailbox.
  void sweep();
  /// Takes the messages that a peer had published before it went, also unexpected ones.
  void take_the_last(Peer source, EndpointCallbacks& callbacks);
  void wake(Peer source);
  void rest(Peer source);
  /// Handles the last announcement of an endpoint again, if that channel of it is not known.
  void look_again(Peer source);
  bool ever_heard(Peer source) const { return mailbox_.seen(source) != 0; }
  /// Checks the channels behind some mailbox words, and now and then what leads to the words.
  void audit();
  const std::vector<Peer>& active() const { return active_; }
  /// The senders that have moved to channels where nothing had been sent yet, since the last call.
  /// They are to be told, by credits, while they are open.
  std::vector<Peer> take_followed() { return std::exchange(followed_, {}); }

 private:
  enum class Heard { yes, nothing, again };
  bool is_due();
  bool has_rung();
  bool is_time_to_sweep();
  void go_on();
  void slow_down(std::uint64_t lines_looked_at);
  Mailbox::Part next_part();
  void prepare(Mailbox::Part part);
  unsigned sweep(Mailbox::Part part);
  unsigned poll_active(EndpointCallbacks& callbacks);
  void deactivate_quiet(std::uint32_t polls_in_vain);
  Heard activate(Peer source, std::uint64_t word);
  Heard open(Peer source, std::uint64_t offset, bool follow = true);
  bool is_done_with_previous(const RxChannel& next);
  void tell_followed(Peer source);
  std::optional<bool> is_intra_node(Peer source, std::uint32_t generation) const;

  const EndpointTable& table_;
  Peers& peers_;
  RxContext& context_;
  coherence::Memory memory_;
  coherence::Memory intra_node_memory_;  ///< for lines of this node only
  Newcomer newcomer_;
  Mailbox mailbox_;
  std::vector<Peer> active_;            ///< channels polled each time
  std::vector<Peer> followed_;          ///< see take_followed()
  std::size_t first_ = 0;               ///< index of the channel polled first
  std::uint64_t resting_since_ns_ = 0;  ///< without an active channel; 0: not known yet
  std::uint64_t next_bell_ns_ = 0;      ///< look at the bell alone, at the slow pace
  std::uint64_t next_sweep_ns_ = 0;     ///< while no channel is active, or nothing comes
  std::uint64_t quiet_since_ns_ = 0;    ///< at the slow pace nothing has come; 0: not known
  bool watches_bell_ = false;           ///< and no more than it, but for a sweep now and then
  base::Pace pace_;
  std::uint32_t polls_ = 0, audits_ = 0;
};

}  // namespace penstock::transport
