// The target side of one-sided operations: serves peers' requests for memory that only this
// process can reach, and atomics on any memory. It serves them while this process makes progress,
// one after the other: that makes atomics atomic.
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

  // ---- reports of the transport: requests, and the outcome of our answers ----
  void request(Peer from, const Header& header, const void* payload);
  ReceiveBuffer begin_request(Peer from, const Header& header);
  void sent(transport::SendOp* op);
  void send_failed(transport::SendOp* op, const Error& error);
  /// True if answers wait that had no room; try_again() sends them.
  bool owes() const { return !waiting_.empty(); }
  void try_again();

  /// True if earlier requests of peers still read or write the memory of the region.
  bool uses(const Region& region) const;

 private:
  /// A request whose payload is on its way.
  struct Request final : transport::Arrival {
    void arrived() override { target->arrived(this); }
    void failed(const Error&) override { target->forget(this); }

    RmaTarget* target;
    Request* prev;
    Request* next;
    Header header;
    Peer from;
    Region* region;   ///< the region that it lands in; null: elsewhere
    Pieces pieces;    ///< where it lands
    std::byte* heap;  ///< the buffer that was allocated for it
  };
  /// An answer on its way out.
  struct Answer : transport::SendOp {
    Answer* prev;
    Answer* next;
    Peer to;
    std::uint32_t generation;  ///< the peer's generation
    std::uint64_t late_at_ns;  ///< when to abandon it; 0: not yet tried in vain
    const Region* region;      ///< the region that it refers to; null: a copy
    std::byte* heap;
    std::uint64_t small;
  };

  void arrived(Request* request);
  void forget(Request* request);
  Region* allowed(const Header& header, std::uint64_t bytes, std::uint32_t access,
                  int* error) const;
  void write(Peer from, const Header& header, const void* payload);
  void load(const Region& region, std::uint64_t address, std::byte* to, std::uint64_t bytes) const;
  void written(Region& region, const Header& header, const void* payload);
  void told_of_write(Region* region);
  void read(Peer from, const Header& header, const void* payload);
  void atomic(Peer from, const Header& header, const void* payload);
  void report(Peer from, const Header& header, const void* payload);

  void refuse(Peer to, const Header& request, int error);
  void reply_error(Peer to, std::uint64_t id, int error);
  Answer* make_answer(const Header& header, const void* contents, std::uint64_t bytes);
  void post(Peer to, Answer* answer);
  void put(Answer* answer);
  void keep(Answer* answer, const Error& error);
  void release(Answer* answer);

  Ep& ep_;
  FreeList<Request> requests_;
  FreeList<Answer> answers_;
  List<Request> arriving_;
  List<Answer> answering_;
  List<Answer> waiting_;
  std::uint64_t next_try_ns_ = 0;
};

}  // namespace penstock::ofi
