// The provider's own messages to peers that have sent to it: replies, and notices to senders about
// messages that they announced. If there is no room, they wait for it.
#pragma once

#include "messages/intrusive_lists.hpp"
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
    std::uint64_t late_at_ns;  ///< when to give up; 0: no try has failed yet
    const Region* region;      ///< the region whose memory it reads; null: it has a copy
    std::byte* heap;
    std::uint64_t small;
  };

  explicit Answers(Ep& ep) : ep_(ep) {}
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  /// Makes an answer with a copy of `contents`, or with uninitialized space for `bytes` bytes if
  /// that is null. Returns null if out of memory.
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
