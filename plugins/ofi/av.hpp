// Address vector: maps addresses to numbers. Both kinds (map and table) assign small numbers in the
// order of insertion.
#pragma once

#include <rdma/fi_domain.h>

#include <vector>

#include "domain.hpp"
#include "transport/transport.hpp"

namespace penstock::ofi {

struct Ep;
struct Eq;

struct Av : fid_av {
  Domain* domain = nullptr;
  Eq* events = nullptr;       ///< receives events of asynchronous insertions
  bool asynchronous = false;  ///< FI_EVENT
  std::atomic<int> users{0};
  struct Entry {
    transport::Address address{};
    bool used = false;
  };
  std::vector<Entry> entries;
  std::vector<fi_addr_t> of_peer;       ///< by transport::Peer; FI_ADDR_NOTAVAIL if unknown
  std::vector<fi_addr_t> free_numbers;  ///< a heap: the lowest is given out first
  std::vector<Ep*> endpoints;           ///< endpoints that cache resolved peers

  const transport::Address* find(fi_addr_t number) const {
    return number < entries.size() && entries[number].used ? &entries[number].address : nullptr;
  }
  /// The number of an address. FI_ADDR_NOTAVAIL if only an earlier endpoint of the same slot was
  /// inserted.
  fi_addr_t number_of(const transport::Address& source) const {
    if (source.slot >= of_peer.size()) return FI_ADDR_NOTAVAIL;
    const transport::Address* known = find(of_peer[source.slot]);
    return known != nullptr && known->generation == source.generation ? of_peer[source.slot]
                                                                      : FI_ADDR_NOTAVAIL;
  }
};

}  // namespace penstock::ofi
