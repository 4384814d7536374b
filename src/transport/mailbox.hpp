// The mailbox of an endpoint. It has one word for each possible sender, in which the sender
// announces its channel and the messages on it. The receiver looks only at lines that have senders.
#pragma once

#include <vector>

#include "transport/endpoint_table.hpp"

namespace penstock::transport {

class Mailbox {
 public:
  /// Lines that a sweep reads together; `box`: also the word that announces new lines.
  struct Part {
    std::uint32_t first = 0, lines = 0;
    bool box = false;
    bool empty() const { return lines == 0 && !box; }
  };

  /// Words that are already there belong to earlier owners of the slot and count as seen. No sender
  /// can announce to this owner yet, since its address is not published.
  Mailbox(const EndpointTable& table, const coherence::Memory& memory, std::uint32_t owner);

  /// The next part to sweep; the parts take turns.
  Part next_part();
  Part whole() const { return {0, lines(), true}; }
  std::uint32_t lines() const { return static_cast<std::uint32_t>(lines_.size()); }
  /// Invalidates a part; effective after the next load fence, which must precede sweep().
  void drop_copies(Part part) const;
  /// Calls handle(sender, word) for each changed word. If the call returns false, the word counts
  /// as changed again in the next sweep. Returns the number of calls that returned true. Newly
  /// found lines are swept the next time.
  template <class Handle>
  unsigned sweep(Part part, Handle&& handle) {
    unsigned events = 0;
    for (std::uint32_t i = part.first; i < part.first + part.lines; ++i) {
      std::uint64_t words[words_a_line];
      if (!changed(i, words)) continue;
      for (std::uint32_t w = 0; w < words_a_line; ++w) {
        const Peer sender = lines_[i].first + w;
        if (words[w] == lines_[i].seen[w]) continue;
        if (sender != owner_ && sender < table_.count()) {
          if (!handle(sender, words[w])) continue;
          ++events;
        }
        lines_[i].seen[w] = words[w];
      }
    }
    if (part.box) find_new();
    return events;
  }
  /// Invalidates the bell, before rung().
  void drop_bell() const;
  /// True if a sender has rung since the last call: it has announced a message or will at once.
  bool rung();
  /// The word as last seen; 0: none yet.
  std::uint64_t seen(Peer sender) const;
  /// Returns the possible senders one after the other. There must be some.
  Peer next_to_audit();
  /// Looks for lines whose announcing word was overwritten.
  void rescan_directory() { read_directory(); }

 private:
  struct Line {
    const std::byte* at;
    Peer first;  ///< sender that writes its first word
    std::uint64_t seen[words_a_line];
  };
  struct Tile {
    std::uint64_t offset = 0;
    std::uint32_t lines = 0;                ///< lines known in `lines_`, one bit each
    std::uint32_t number[tile_lines] = {};  ///< their index there
  };

  bool changed(std::uint32_t number, std::uint64_t* words) const;
  void find_new();
  void read_directory();
  void adopt(std::uint32_t group, std::uint64_t entry);

  const EndpointTable& table_;
  coherence::Memory memory_;
  std::uint32_t owner_;
  std::byte* box_;
  std::uint64_t rung_ = 0;       ///< the bell as last seen
  std::uint64_t latest_ = 0;     ///< the last written entry as last seen
  std::vector<Tile> tiles_;      ///< by group of senders
  std::vector<Line> lines_;      ///< in order of discovery
  std::uint32_t next_line_ = 0;  ///< first line of the next part
  std::uint32_t audited_ = 0;
};

}  // namespace penstock::transport
