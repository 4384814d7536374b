// Address vector: numbers for addresses. Both kinds (map and table) give small numbers in the order
// of insertion.
#pragma once

#include <rdma/fi_domain.h>

#include <vector>

#include "domain.hpp"
#include "penstock/transport.hpp"

namespace penstock::ofi {

struct Ep;
struct Eq;

struct Av : fid_av {
  Domain* domain = nullptr;
  Eq* events = nullptr;  ///< insertions are told here when bound
  std::atomic<int> users{0};
  struct Entry {
    transport::Address address{};
    bool used = false;
  };
  std::vector<Entry> entries;
  std::vector<fi_addr_t> of_peer;  ///< by transport::Peer; FI_ADDR_NOTAVAIL where unknown
  std::vector<fi_addr_t> free_numbers;
  std::vector<Ep*> endpoints;  ///< that keep resolved peers

  const transport::Address* find(fi_addr_t number) const {
    return number < entries.size() && entries[number].used ? &entries[number].address : nullptr;
  }
  fi_addr_t number_of(transport::Peer peer) const {
    return peer < of_peer.size() ? of_peer[peer] : FI_ADDR_NOTAVAIL;
  }
};

}  // namespace penstock::ofi
