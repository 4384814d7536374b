// The mailbox of an endpoint: one word for each endpoint that may send to it, in which a sender
// announces its channel and what it has sent there.
#pragma once

#include <vector>

#include "transport/endpoint_table.hpp"

namespace penstock::transport {

class Mailbox {
 public:
  /// Lines that a sweep reads together; none when `lines` is 0.
  struct Part {
    std::uint32_t first = 0, lines = 0;
  };

  /// Words already there were announced to earlier owners of the slot, and count as seen. No sender
  /// can announce to this owner yet: its address is not known to others.
  Mailbox(const EndpointTable& table, const coherence::Memory& memory, std::uint32_t owner);

  /// The next part to sweep; the parts take turns.
  Part next_part();
  Part whole() const { return {0, lines_}; }
  /// Invalidates the copies of a part; it takes effect with a load fence, before sweep().
  void drop_copies(Part part) const;
  /// Calls heard(sender, word) for each word that has changed; one for which it returns false is
  /// new again at the next sweep. Returns how many were heard.
  template <class Heard>
  unsigned sweep(Part part, Heard&& heard) {
    if (!changed(part)) return 0;
    unsigned events = 0;
    const std::uint32_t end = words_a_line * (part.first + part.lines);
    for (Peer sender = words_a_line * part.first; sender < end; ++sender) {
      if (words_[sender] == seen_[sender]) continue;
      if (sender != owner_) {
        if (!heard(sender, words_[sender])) continue;
        ++events;
      }
      seen_[sender] = words_[sender];
    }
    return events;
  }
  /// Invalidates the copy of the bell, before rung().
  void drop_bell() const;
  /// True if a sender has rung since the last call: it has just announced a message, or will soon.
  bool rung();
  /// The word as last heard; 0: none so far.
  std::uint64_t seen(Peer sender) const { return seen_[sender]; }
  /// Returns one sender after the other of those that may have written.
  Peer next_to_audit() { return audited_++ % (words_a_line * lines_); }

 private:
  bool changed(Part part);

  const EndpointTable& table_;
  coherence::Memory memory_;
  std::uint32_t owner_;
  std::uint64_t rung_ = 0;  ///< the bell, as last looked at
  std::vector<std::uint64_t> seen_;
  std::vector<std::uint64_t> words_;  ///< the part that is being swept
  std::uint32_t lines_ = 1;           ///< in use
  std::uint32_t next_line_ = 0;       ///< looked at next
  std::uint32_t audited_ = 0;
};

}  // namespace penstock::transport
