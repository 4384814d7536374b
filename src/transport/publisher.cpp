#include "transport/publisher.hpp"

#include <algorithm>
#include <atomic>

#include "base/clock.hpp"
#include "base/format.hpp"

namespace penstock::transport {
namespace {

constexpr std::size_t peers_a_check = 256;
/// A process publishes its wait after this time without a message.
constexpr std::uint64_t quiet_ns = 300'000'000;

}  // namespace

Publisher::Publisher(arena::Arena& arena, const EndpointTable& table, const Address& self,
                     Peers& peers)
    : pool_(arena.pool()), peers_(peers), by_peer_(arena, table, self) {}

void Publisher::publish_peers(std::uint64_t now_ns) {
  const std::size_t number = std::min(peers_.known(), peers_a_check);
  for (std::size_t i = 0; i < number; ++i) {
    next_known_ = (next_known_ + 1) % peers_.known();
    const Peer at = peers_.peer_of(next_known_);
    const PeerState& peer = peers_[at];
    if (peer.tx && !peer.dead()) {
      peer.tx->publish_position();
      peer.tx->give_back_idle(now_ns);
    }
    if (peer.counts != EndpointStats{}) by_peer_.publish(at, peer.counted_generation, peer.counts);
  }
}

/// The process's record holds the sum over its endpoints.
void Publisher::publish_totals() {
  static std::atomic<std::uint64_t> sums[4];
  const EndpointStats counts = peers_.all_counts();
  const auto add = [](std::atomic<std::uint64_t>& sum, std::uint64_t now, std::uint64_t before) {
    return sum.fetch_add(now - before, std::memory_order_relaxed) + now - before;
  };
  pool::ProcessStats sum;
  sum.messages_sent = add(sums[0], counts.messages_sent, published_.messages_sent);
  sum.bytes_sent = add(sums[1], counts.bytes_sent, published_.bytes_sent);
  sum.messages_received = add(sums[2], counts.messages_received, published_.messages_received);
  sum.bytes_received = add(sums[3], counts.bytes_received, published_.bytes_received);
  published_ = counts;
  pool_.publish_stats(sum);
}

std::string Publisher::waiting_text(std::span<const Peer> waiting) const {
  if (waiting.empty()) return std::string(pool::activity_polling);
  const std::string others =
      waiting.size() > 1 ? fmt::format(" and to {} others", waiting.size() - 1) : "";
  return fmt::format("sends to {}{}", peers_.describe(waiting[0]), others);
}

void Publisher::publish_activity(std::uint64_t now_ns, std::span<const Peer> waiting) {
  const EndpointStats counts = peers_.all_counts();
  const std::uint64_t messages = counts.messages_sent + counts.messages_received;
  if (messages != moved_ || moved_ns_ == 0) {
    moved_ = messages;
    moved_ns_ = now_ns;
  }
  const bool quiet = now_ns - moved_ns_ >= quiet_ns;
  if (quiet == is_idle()) return;
  wants_report_of_waiting_ = quiet && waiting.empty();
  activity_ = quiet ? waiting_text(waiting) : "";
  if (!quiet) return pool_.publish_activity("");
  pool_.publish_activity(base::since_text(activity_, now_ns - moved_ns_));
}

void Publisher::report_waiting(const PendingReceives& pending) {
  wants_report_of_waiting_ = false;
  if (!is_idle() || pending.receives == 0) return;
  const std::string from = pending.from_anybody ? "anybody" : peers_.describe(pending.from);
  activity_ = fmt::format("receives from {}, tag {:#x}", from, pending.tag);
  pool_.publish_activity(base::since_text(activity_, base::now_ns() - moved_ns_));
}

}  // namespace penstock::transport
