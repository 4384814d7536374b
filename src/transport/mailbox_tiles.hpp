// Tiles of mailboxes: made when the first of 64 senders announces something to a receiver, and
// found by entries in the receiver's box. So mailboxes take memory for pairs that talk.
#pragma once

#include <optional>

#include "sync/sync.hpp"
#include "transport/layout.hpp"

namespace penstock::transport {

/// The words of a mailbox that one sender writes, or a whole box: by receiver and group of senders.
struct TilePlace {
  std::uint32_t owner, group;
};

class MailboxTiles {
 public:
  /// `head`: "penstock.endpoints", which says what was checked.
  MailboxTiles(arena::Arena& arena, std::byte* head, const TableHead& said);

  std::byte* box(std::uint32_t owner) const { return body_ + layout_.box(owner); }
  std::byte* at(std::uint64_t tile) const { return arena_->pool().base() + tile; }
  const TableLayout& layout() const { return layout_; }
  /// The tile's offset in the pool if the entry is whole and names one, else nullopt.
  std::optional<std::uint64_t> tile_of(std::uint64_t entry, TilePlace place) const;

  /// The entry as it is now; nullopt when there is none, or it was overwritten. A device access.
  std::optional<std::uint64_t> find(TilePlace place) const;
  /// The entry of a tile in `owner`'s mailbox that has the sender's line in use: found by one
  /// device access, or made, under the lock of its group, which it awaits for `timeout_ns` (0: the
  /// default). `sender` is an endpoint of this process. Errors: no_space, those of the lock.
  Result<std::uint64_t> reach(std::uint32_t owner, std::uint32_t sender,
                              std::uint64_t timeout_ns = 0);
  /// What the slot's last owner left in the line of its lock, if it died in its midst, would hold
  /// up all others of the group. By who claims the slot.
  void clear_lock_line(std::uint32_t slot);
  /// Publishes the line of the endpoint of this process anew if it was overwritten: nobody passes
  /// over a line whose token lives. By the endpoint's thread.
  void keep_lock_line(std::uint32_t slot);

 private:
  class Guard;
  sync::Lock lock_of(std::uint32_t sender, sync::AliveCheck alive) const;
  Result<Guard> lock(std::uint32_t sender, std::uint64_t timeout_ns);
  /// As it is under the lock; nullopt: both copies were overwritten.
  std::optional<TilesState> read_state(std::uint32_t group) const;
  void write(std::uint32_t group, TilesState state);
  void finish(std::uint32_t group, const TilesState& state);
  void enter(TilePlace place, std::uint64_t entry);
  std::uint64_t sealed(std::uint64_t offset, std::uint32_t lines, TilePlace place) const;
  std::uint64_t take(TilesState state, TilePlace place, std::uint32_t line);
  Result<TilesState> with_piece(std::uint32_t group, const std::optional<TilesState>& state,
                                std::uint64_t timeout_ns);
  Result<std::uint32_t> first_unused_piece(std::uint32_t group) const;

  std::byte* entry_at(TilePlace place) const {
    return box(place.owner) + TableLayout::directory + mailbox_word_bytes * place.group;
  }

  arena::Arena* arena_;
  coherence::Memory memory_;
  std::byte* body_;
  std::byte* locks_;
  TilesStates* states_;  ///< by group
  TableLayout layout_;
  std::uint64_t key_;
};

}  // namespace penstock::transport
