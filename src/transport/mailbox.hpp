// The mailbox of an endpoint: one word for each endpoint that may send to it, in which a sender
// announces its channel and what it has sent there. Only lines that somebody writes are looked at.
#pragma once

#include <vector>

#include "transport/endpoint_table.hpp"

namespace penstock::transport {

class Mailbox {
 public:
  /// Lines that a sweep reads together; with `box` also the word that tells of new ones.
  struct Part {
    std::uint32_t first = 0, lines = 0;
    bool box = false;
    bool empty() const { return lines == 0 && !box; }
  };

  /// Words already there were announced to earlier owners of the slot, and count as seen. No sender
  /// can announce to this owner yet: its address is not known to others.
  Mailbox(const EndpointTable& table, const coherence::Memory& memory, std::uint32_t owner);

  /// The next part to sweep; the parts take turns.
  Part next_part();
  Part whole() const { return {0, lines(), true}; }
  std::uint32_t lines() const { return static_cast<std::uint32_t>(lines_.size()); }
  /// Invalidates the copies of a part; it takes effect with a load fence, before sweep().
  void drop_copies(Part part) const;
  /// Calls heard(sender, word) for each word that has changed; one for which it returns false is
  /// new again at the next sweep. Returns how many were heard. Lines that turn out to be new are
  /// swept the next time.
  template <class Heard>
  unsigned sweep(Part part, Heard&& heard) {
    unsigned events = 0;
    for (std::uint32_t i = part.first; i < part.first + part.lines; ++i) {
      std::uint64_t words[words_a_line];
      if (!changed(i, words)) continue;
      for (std::uint32_t w = 0; w < words_a_line; ++w) {
        const Peer sender = lines_[i].first + w;
        if (words[w] == lines_[i].seen[w]) continue;
        if (sender != owner_ && sender < table_.count()) {
          if (!heard(sender, words[w])) continue;
          ++events;
        }
        lines_[i].seen[w] = words[w];
      }
    }
    if (part.box) find_new();
    return events;
  }
  /// Invalidates the copy of the bell, before rung().
  void drop_bell() const;
  /// True if a sender has rung since the last call: it has just announced a message, or will soon.
  bool rung();
  /// The word as last heard; 0: none so far.
  std::uint64_t seen(Peer sender) const;
  /// Returns one sender after the other of those that may have written. There are some.
  Peer next_to_audit();
  /// Looks for lines that nobody told of, whose word was overwritten.
  void look_for_untold() { read_directory(); }

 private:
  struct Line {
    const std::byte* at;
    Peer first;  ///< sender of its first word
    std::uint64_t seen[words_a_line];
  };
  struct Tile {
    std::uint64_t offset = 0;
    std::uint32_t lines = 0;                ///< in `lines_`, one bit each
    std::uint32_t number[tile_lines] = {};  ///< there
  };

  bool changed(std::uint32_t number, std::uint64_t* words) const;
  void find_new();
  void read_directory();
  void adopt(std::uint32_t group, std::uint64_t entry);

  const EndpointTable& table_;
  coherence::Memory memory_;
  std::uint32_t owner_;
  std::byte* box_;
  std::uint64_t rung_ = 0;       ///< the bell, as last looked at
  std::uint64_t latest_ = 0;     ///< the entry that was written last, as last looked at
  std::vector<Tile> tiles_;      ///< by group of senders
  std::vector<Line> lines_;      ///< in the order in which they were found
  std::uint32_t next_line_ = 0;  ///< looked at next
  std::uint32_t audited_ = 0;
};

}  // namespace penstock::transport
