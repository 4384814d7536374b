// Credits and error codes that are sent outside the usual order, when the pool's lock is free.
#pragma once

#include <optional>
#include <vector>

#include "transport/endpoint_table.hpp"
#include "transport/peers.hpp"

namespace penstock::transport {

class CreditReports {
 public:
  CreditReports(pool::Pool& pool, const EndpointTable& table, Peers& peers)
      : pool_(pool), table_(table), peers_(peers) {}

  /// For the present channel from `to`. `code`: an error, or none: only credits. The same credits
  /// are added once.
  void add(Peer to, std::optional<std::uint32_t> code);
  /// Sends all of them, or waits for the next call if the lock is not free.
  void send();

 private:
  struct Report {
    Peer peer;
    std::uint32_t generation;
    std::optional<std::uint32_t> code;
    bool operator==(const Report&) const = default;
  };
  pool::Pool& pool_;
  const EndpointTable& table_;
  Peers& peers_;
  std::vector<Report> reports_;
};

}  // namespace penstock::transport
