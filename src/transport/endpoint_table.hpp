// The table of endpoints: those that can be reached, and where senders announce messages to them.
#pragma once

#include <optional>
#include <vector>

#include "transport/layout.hpp"
#include "transport/mailbox_tiles.hpp"
#include "transport/transport.hpp"

namespace penstock::transport {

/// A view of the table; cheap. A process's first endpoint takes the slot that is its own, without
/// the pool's lock; for others claiming takes the lock.
class EndpointTable {
 public:
  /// Opens the pool's table, making it when this is the first endpoint ever. Errors: wrong_format,
  /// where it was made by another version of Penstock or is damaged.
  static Result<EndpointTable> open(arena::Arena& arena);

  std::uint32_t count() const { return tiles_.layout().slots(); }
  /// Takes the process's own slot, or another that is free, or whose process is dead. Errors:
  /// no_slots.
  Result<Address> claim(std::uint64_t job);
  /// Stores the user word in the slot's line; peers find it when this has returned.
  void set_user_word(const Address& address, std::uint64_t user_word);
  /// Says that the endpoint has memory. Whoever finds it closed finds that, too, and so does
  /// whoever no longer finds that memory's name.
  void set_supplied(const Address& address);
  /// Marks the slot closed; peers find out at their next check. All that this process has published
  /// is at the device before.
  void release(const Address& address);

  /// The line of a slot as it is now, checked; nullopt when the slot was never used, or the line is
  /// torn because the slot is being claimed anew: then its earlier endpoint has gone.
  std::optional<EndpointLine> read(std::uint32_t slot) const;
  /// Those of several slots, in one batch: nullopt also where a line is torn for the moment.
  std::vector<std::optional<EndpointLine>> read(const std::vector<std::uint32_t>& slots) const;
  /// All lines as they are now, in one batch: those that are nullopt as above.
  std::vector<std::optional<EndpointLine>> read_all() const;

  /// The words of mailbox `owner` that endpoint `sender`, which is this process's, writes. One
  /// device access; the lock of the sender's group, for `timeout_ns` (0: the default), if it is the
  /// first of its line there. Errors: no_space, those of the lock.
  Result<MailboxWords> words(std::uint32_t owner, std::uint32_t sender,
                             std::uint64_t timeout_ns = 0);
  /// Word of mailbox `owner` that endpoint `sender` writes; null when there is no tile for it yet.
  std::byte* find_word(std::uint32_t owner, std::uint32_t sender) const;
  /// See MailboxTiles.
  void keep_lock_line(std::uint32_t slot) { tiles_.keep_lock_line(slot); }

  const MailboxTiles& tiles() const { return tiles_; }
  /// The rows of statistics of a slot's endpoint.
  std::byte* rows(std::uint32_t slot) const { return body_ + tiles_.layout().rows(slot); }
  std::uint64_t key() const { return key_; }
  std::byte* line_of(std::uint32_t slot) const { return body_ + tiles_.layout().line(slot); }

 private:
  EndpointTable(arena::Arena& arena, std::byte* head, const TableHead& said);
  bool is_whole(const EndpointLine& line, std::uint32_t slot) const;
  EndpointLine look_at_own(std::uint32_t slot) const;
  Address claim_slot(std::uint32_t slot, std::uint64_t job);
  Result<std::uint32_t> find_slot() const;
  std::optional<std::uint32_t> find_free(std::uint32_t first, std::uint32_t number,
                                         std::uint32_t asked) const;
  void change(const Address& address, std::uint64_t EndpointLine::*word, std::uint64_t value);
  void publish_hint(std::uint32_t slot);
  std::byte* word_in(std::uint64_t entry, std::uint32_t sender) const;

  arena::Arena* arena_;
  coherence::Memory memory_;
  TableHeadLines* head_;
  std::byte* body_;
  std::uint64_t key_;
  std::uint32_t processes_;  ///< slots from here on are not a process's own
  MailboxTiles tiles_;
};

}  // namespace penstock::transport
