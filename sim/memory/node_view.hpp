// One node's view of the pool: a cache of lines without coherence to other nodes.
//
//   device  the pool's own bytes, shared by all nodes
//   view    what this node sees; users and weakened publishes store here directly
//   shadow  the view as it was when it last agreed with the device
//   state   whether the node holds a copy of the line
//
// A word of the view that differs from its shadow was stored by this node and not yet sent: the
// line is dirty. Eviction and write-back send the whole line of a held copy, so they destroy other
// nodes' later stores to it. If the line is not held, only the stored words are sent: the store
// counts as having fetched the line just before. If users work in the view, whose loads and stores
// cannot fetch, the line counts as fetched when the view last took over the device's words, and is
// sent whole (Storage::users_fetch).
// Source: docs/memory-model.md, "The hardware".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace penstock::sim {

inline constexpr std::uint64_t line_bytes = 64;
inline constexpr std::uint32_t words_per_line = 8;
inline constexpr std::uint8_t all_words = 0xff;

/// Guards the lines of a view that several processes share. Survives the death of a holder.
class LineLocks {
 public:
  static constexpr std::uint64_t count = 4096;
  static constexpr std::uint64_t bytes = count * sizeof(std::uint64_t);

  LineLocks() = default;
  explicit LineLocks(void* words) : words_(static_cast<std::atomic<std::uint64_t>*>(words)) {}
  /// Returns true if the last holder died while it updated this line.
  bool lock(std::uint64_t line) const;
  void unlock(std::uint64_t line) const;
  /// Only one thread works with the view and the device: its words need no atomic operations.
  bool needless() const { return words_ == nullptr; }

 private:
  std::atomic<std::uint64_t>* words_ = nullptr;  ///< null: only one thread, no locks
};

struct Line {
  std::uint64_t words[words_per_line];
};

class NodeView {
 public:
  struct Storage {
    std::byte* device = nullptr;
    std::byte* view = nullptr;
    std::byte* shadow = nullptr;
    std::uint8_t* held = nullptr;  ///< one byte a line
    std::uint64_t bytes = 0;
    LineLocks locks;
    bool users_fetch = false;
    std::uint32_t node = 0;  ///< its number
  };
  explicit NodeView(const Storage& storage) : s_(storage) {}

  std::byte* base() const { return s_.view; }
  std::uint32_t node() const { return s_.node; }
  std::uint64_t bytes() const { return s_.bytes; }
  std::uint64_t lines() const { return s_.bytes / line_bytes; }

  /// Returns the line as this node sees it; fetches it if it is not held.
  Line load(std::uint64_t line);
  void prefetch(std::uint64_t line);
  /// Returns the device's own bytes; fetches nothing.
  Line device_line(std::uint64_t line) const;
  /// Sends the line if it is dirty; a held copy stays.
  void write_back(std::uint64_t line);
  /// Sends the line if it is dirty, and drops the copy.
  void drop(std::uint64_t line);
  /// A store past the cache arrives at the device; a copy is dropped, and sent before if dirty. The
  /// device keeps the bits of a word that are `spared`.
  void deliver(std::uint64_t line, const Line& data, std::uint8_t words, std::uint64_t spared = 0);

  /// A plain store of some words: the line is fetched, and stays dirty until it is sent.
  void store(std::uint64_t line, const Line& data, std::uint8_t words);

  bool held(std::uint64_t line) const { return (s_.held[line] & copy_held) != 0; }
  bool dirty(std::uint64_t line) const;
  /// The node lost its power: loses its unsent stores and all its copies.
  void forget_line(std::uint64_t line);

 private:
  static constexpr std::uint8_t copy_held = 1;
  static constexpr std::uint8_t taken_over = 2;  ///< taken over by the view at least once
  static constexpr std::uint8_t written = 4;     ///< dirty, even if the same words were stored

  std::atomic<std::uint64_t>* words(std::byte* of, std::uint64_t line) const {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(of + line * line_bytes);
  }
  void set_held(std::uint64_t line, bool held);
  std::uint8_t stored_words(std::uint64_t line) const;
  void send(std::uint64_t line);
  void refresh(std::uint64_t line);
  void refresh_alone(std::uint64_t line);
  class Hold;

  Storage s_;
};

}  // namespace penstock::sim
