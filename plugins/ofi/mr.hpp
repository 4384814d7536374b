// Memory regions, which peers may read and write.
#pragma once

#include <rdma/fi_domain.h>
#include <sys/uio.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "rma/rma.hpp"
#include "transport/transport.hpp"

namespace penstock::ofi {

struct Domain;
struct Ep;
struct Cntr;

struct Region : fid_mr {
  Domain* domain = nullptr;
  rma::Region what;
  std::vector<iovec> parts;       ///< the region's memory, in order
  bool remote = false;            ///< peers can access it
  Cntr* remote_writes = nullptr;  ///< counts writes of peers here
};

/// Consecutive pieces of memory.
struct Pieces {
  iovec iov[transport::max_iov] = {};
  std::uint32_t count = 0;
};
/// Returns the memory of [address, address + bytes) of a region. The range must lie in the region.
Pieces locate(const Region& region, std::uint64_t address, std::uint64_t bytes);

/// The regions of a domain that peers can access. Peers find the table in the pool by the user word
/// of each of the domain's endpoints.
class Regions {
 public:
  explicit Regions(Domain& domain) : domain_(domain) {}

  /// Adds a region. Errors: already_exists if the key is in use; no_space.
  Result<void> add(Region* region);
  void remove(Region* region);
  Region* find(std::uint64_t key) const {
    const auto at = by_key_.find(key);
    return at != by_key_.end() ? at->second : nullptr;
  }
  /// Announces the table to the peers of an enabled endpoint.
  Result<void> announce_at(Ep& ep) const;

 private:
  Domain& domain_;
  std::unique_ptr<rma::RegionTable> table_;  ///< made for the first region
  std::unordered_map<std::uint64_t, Region*> by_key_;
};

}  // namespace penstock::ofi
