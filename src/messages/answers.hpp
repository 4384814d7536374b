// An endpoint's own messages to peers that have sent to it: replies, and calls to senders about the
// messages that they announced. Where there is no room for one, it waits.
#pragma once

#include <functional>
#include <memory>

#include "messages/intrusive_lists.hpp"
#include "messages/wire.hpp"

namespace penstock::messages {

class Answers {
 public:
  struct Answer : transport::SendOp {
    Answer* prev;
    Answer* next;
    Peer to;
    std::uint32_t generation;  ///< the peer's generation
    std::uint64_t late_at_ns;  ///< when to give up; 0: no try has failed yet
    const void* source;        ///< whose memory it reads, in the user's terms; null: it has a copy
    std::byte* heap;
    std::uint64_t small;
  };

  Answers() = default;
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  /// `code_of`: the code of an error. A peer gets it instead of an answer that found no room for
  /// PENSTOCK_TIMEOUT_MS (Endpoint::take_error). Empty: answers wait as long as the peer lives.
  void set_up(transport::Endpoint& transport, std::function<std::uint32_t(const Error&)> code_of);

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

  /// True if an answer still reads the memory of `source`.
  bool uses(const void* source) const;

 private:
  void put(Answer* answer);
  void keep(Answer* answer, const Error& error);
  void release(Answer* answer);

  transport::Endpoint* transport_ = nullptr;
  std::function<std::uint32_t(const Error&)> code_of_;
  FreeList<Answer> answers_;
  List<Answer> answering_;
  List<Answer> waiting_;
  std::uint64_t next_try_ns_ = 0;
};

}  // namespace penstock::messages
