// Tiles of mailboxes. A tile is made when the first of 64 senders announces a message to a
// receiver; an entry in the receiver's box names it. So only communicating pairs take mailbox
// memory.
#pragma once

#include <optional>

#include "sync/sync.hpp"
#include "transport/layout.hpp"

namespace penstock::transport {

/// Identifies a tile: the receiver that owns the mailbox, and the group of senders.
struct TilePlace {
  std::uint32_t owner, group;
};

class MailboxTiles {
 public:
  /// `head`: the object "penstock.endpoints"; `checked_head`: its checked contents.
  MailboxTiles(arena::Arena& arena, std::byte* head, const TableHead& checked_head);

  std::byte* box(std::uint32_t owner) const { return body_ + layout_.box(owner); }
  std::byte* at(std::uint64_t tile) const { return arena_->pool().base() + tile; }
  const TableLayout& layout() const { return layout_; }
  /// The tile's offset in the pool if the entry is whole and names one, else nullopt.
  std::optional<std::uint64_t> tile_of(std::uint64_t entry, TilePlace place) const;

  /// The current entry; nullopt if there is none or it was overwritten. One device access.
  std::optional<std::uint64_t> find(TilePlace place) const;
  /// The entry of a tile in `owner`'s mailbox with the sender's line in use. Finds it by one device
  /// access, or makes it under the lock of the group. `sender`: an endpoint of this process.
  /// `timeout_ns`: limit of the wait for the lock (0: the default). Errors: no_space, those of the
  /// lock.
  Result<std::uint64_t> find_or_make(std::uint32_t owner, std::uint32_t sender,
                                     std::uint64_t timeout_ns = 0);
  /// Resets the lock line of a slot. A claimer calls it: the last owner may have died while it held
  /// or awaited the lock, and its line would block the group.
  void clear_lock_line(std::uint32_t slot);
  /// Publishes this process's lock line again if it was overwritten: other processes never skip the
  /// line of a living token. Called by the endpoint's thread.
  void repair_lock_line(std::uint32_t slot);

 private:
  class Guard;
  sync::Lock lock_of(std::uint32_t sender, sync::AliveCheck alive) const;
  Result<Guard> lock(std::uint32_t sender, std::uint64_t timeout_ns);
  /// The state under the lock; nullopt: both copies were overwritten.
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
