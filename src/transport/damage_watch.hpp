// Repairs lines of a channel that a foreign store has overwritten. Each line has one writer, which
// keeps a private copy and publishes it again. A message itself cannot be repaired: both ends would
// wait for ever, so the receiver reports it.
#pragma once

#include "transport/credit_reports.hpp"
#include "transport/poller.hpp"

namespace penstock::transport {

class DamageWatch {
 public:
  DamageWatch(EndpointTable& table, Peer self, Peers& peers, Poller& poller, CreditReports& reports)
      : table_(table), self_(self), peers_(peers), poller_(poller), reports_(reports) {}

  /// Looks at both ends of some channels, once a second.
  void look(std::uint64_t now_ns);

 private:
  void repair(Peer to);
  void look_at(Peer source, std::uint64_t now_ns);

  EndpointTable& table_;
  Peer self_;
  Peers& peers_;
  Poller& poller_;
  CreditReports& reports_;
  std::uint64_t next_look_ns_ = 0;
  std::size_t last_ = 0;  ///< index among the known peers of the one looked at last
};

}  // namespace penstock::transport
