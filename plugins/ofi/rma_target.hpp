// The target side of one-sided operations. It serves peers' requests for memory that only this
// process can access, and atomics on any memory. It serves them one after the other, while this
// process makes progress; that makes atomics atomic.
#pragma once

#include <vector>

#include "mr.hpp"
#include "rma_wire.hpp"

namespace penstock::ofi {

struct Ep;

class RmaTarget {
 public:
  explicit RmaTarget(Ep& ep) : ep_(ep) {}
  ~RmaTarget();
  RmaTarget(const RmaTarget&) = delete;
  RmaTarget& operator=(const RmaTarget&) = delete;

  // ---- reports of the transport ----
  void request(Peer from, const Header& header, const void* payload);
  ReceiveBuffer begin_request(Peer from, const Header& header);

  /// True if earlier requests of peers still write the memory of the region.
  bool uses(const Region& region) const;

 private:
  /// A request whose payload is still arriving.
  struct Request final : transport::Arrival {
    void arrived() override { target->arrived(this); }
    void failed(const Error&) override { target->forget(this); }

    RmaTarget* target;
    Request* prev;
    Request* next;
    Header header;
    Peer from;
    Region* region;   ///< the region that it arrives in; null: in a buffer
    Pieces pieces;    ///< the memory that it arrives in
    std::byte* heap;  ///< the buffer allocated for it, if any
  };
  void arrived(Request* request);
  void forget(Request* request);
  Region* allowed(const Header& header, std::uint64_t bytes, std::uint32_t access,
                  int* error) const;
  void write(Peer from, const Header& header, const void* payload);
  void load(const Region& region, std::uint64_t address, std::byte* to, std::uint64_t bytes) const;
  void written(Region& region, const Header& header, const void* payload);
  void count_remote_write(Region* region);
  void read(Peer from, const Header& header, const void* payload);
  void atomic(Peer from, const Header& header, const void* payload);
  void report(Peer from, const Header& header, const void* payload);

  void refuse(Peer to, const Header& request, int error);
  void reply_error(Peer to, std::uint64_t id, int error);

  Ep& ep_;
  FreeList<Request> requests_;
  List<Request> arriving_;
};

}  // namespace penstock::ofi
