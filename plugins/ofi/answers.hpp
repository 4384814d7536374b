// Messages of the provider's own to peers that have sent to it: replies, and what senders are told
// of the messages that they announce. They wait for room, and go when there is some.
#pragma once

#include "matching/intrusive_lists.hpp"
#include "mr.hpp"
#include "rma_wire.hpp"

namespace penstock::ofi {

struct Ep;

class Answers {
 public:
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

  explicit Answers(Ep& ep) : ep_(ep) {}
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  /// With a copy of `contents`; null: room for as many bytes. Returns null when memory is out.
  Answer* make(const Header& header, const void* contents, std::uint64_t bytes);
  void post(Peer to, Answer* answer);

  // ---- reports of the transport ----
  void sent(transport::SendOp* op);
  void send_failed(transport::SendOp* op, const Error& error);
  /// True if answers wait that had no room; try_again() sends them.
  bool owes() const { return !waiting_.empty(); }
  void try_again();

  /// True if an answer still reads the memory of the region.
  bool uses(const Region& region) const;

 private:
  void put(Answer* answer);
  void keep(Answer* answer, const Error& error);
  void release(Answer* answer);

  Ep& ep_;
  FreeList<Answer> answers_;
  List<Answer> answering_;
  List<Answer> waiting_;
  std::uint64_t next_try_ns_ = 0;
};

}  // namespace penstock::ofi
