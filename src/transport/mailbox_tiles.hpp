// Tiles of mailboxes: made when the first of 64 senders announces something to a receiver, and
// found by entries in the receiver's box. So mailboxes take memory for pairs that talk.
#pragma once

#include <optional>

#include "transport/layout.hpp"

namespace penstock::transport {

/// The words of a mailbox that one sender writes, or a whole box: by receiver and group of senders.
struct TilePlace {
  std::uint32_t owner, group;
};

class MailboxTiles {
 public:
  /// `head`: "penstock.endpoints", whose checked contents say where the rest lies.
  MailboxTiles(arena::Arena& arena, std::byte* head, std::byte* body, const TableLayout& layout,
               std::uint64_t key);

  std::byte* box(std::uint32_t owner) const { return body_ + layout_.box(owner); }
  std::byte* at(std::uint64_t tile) const { return arena_->pool().base() + tile; }
  const TableLayout& layout() const { return layout_; }
  /// The tile's offset in the pool if the entry is whole and names one, else nullopt.
  std::optional<std::uint64_t> tile_of(std::uint64_t entry, TilePlace place) const;

  /// The entry as it is now; nullopt when there is none, or it was overwritten. A device access.
  std::optional<std::uint64_t> find(TilePlace place) const;
  /// An entry that has this line of the tile in use: found by one device access, or made, under the
  /// pool's lock, which it awaits for `timeout_ns` (0: the default). Errors: no_space, those of the
  /// lock.
  Result<std::uint64_t> reach(TilePlace place, std::uint32_t line, std::uint64_t timeout_ns = 0);

 private:
  /// The state as it is under the lock; `whole` false: both copies were overwritten.
  struct Read {
    TilesState state{};
    bool whole = false;
  };
  Read read_state() const;
  void write(TilesState state);
  void finish(const TilesState& state);
  void enter(TilePlace place, std::uint64_t entry);
  std::uint64_t sealed(std::uint64_t offset, std::uint32_t lines, TilePlace place) const;
  std::optional<std::uint64_t> take(TilesState state, TilePlace place, std::uint32_t line);
  Result<void> add_piece(std::uint32_t number, std::uint64_t timeout_ns);
  Result<std::uint32_t> first_unused_piece() const;

  std::byte* entry_at(TilePlace place) const {
    return box(place.owner) + TableLayout::directory + mailbox_word_bytes * place.group;
  }

  arena::Arena* arena_;
  coherence::Memory memory_;
  TableHeadLines* head_;
  std::byte* body_;
  TableLayout layout_;
  std::uint64_t key_;
};

}  // namespace penstock::transport
