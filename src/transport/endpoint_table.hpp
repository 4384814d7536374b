// The endpoint table: endpoints that can be reached, and where senders announce messages to them.
#pragma once

#include <optional>
#include <vector>

#include "transport/layout.hpp"
#include "transport/mailbox_tiles.hpp"
#include "transport/transport.hpp"

namespace penstock::transport {

/// A view of the table; cheap. A process's first endpoint takes the process's own slot without the
/// pool's lock; claiming any other slot takes the lock.
class EndpointTable {
 public:
  /// Opens the pool's table; the first endpoint of the pool makes it. Errors: wrong_format (made by
  /// another version of Penstock, or damaged).
  static Result<EndpointTable> open(arena::Arena& arena);

  std::uint32_t count() const { return tiles_.layout().slots(); }
  /// Takes the process's own slot, or another slot that is free or whose process is dead. Errors:
  /// no_slots.
  Result<Address> claim(std::uint64_t job);
  /// Stores the user word in the slot's line; peers find it after this call has returned.
  void set_user_word(const Address& address, std::uint64_t user_word);
  /// Records that the endpoint has memory. A process that finds the endpoint closed, or no longer
  /// finds that memory's name, also sees this record.
  void set_supplied(const Address& address);
  /// Marks the slot closed; peers notice at their next check. All earlier publishes of this process
  /// reach the device first.
  void release(const Address& address);

  /// The current, checked line of a slot. nullopt: the slot was never used, or its line is torn by
  /// a new claim, so its earlier endpoint has ended.
  std::optional<EndpointLine> read(std::uint32_t slot) const;
  /// The lines of slots that belong to processes of this node, whose stores drop the copies in the
  /// caches they share; nullopt also for a line that is torn for the moment.
  std::vector<std::optional<EndpointLine>> load_of_this_node(
      const std::vector<std::uint32_t>& slots) const;
  /// All lines, in one batch; nullopt as above.
  std::vector<std::optional<EndpointLine>> read_all() const;

  /// The words of mailbox `owner` that endpoint `sender` of this process writes. One device access.
  /// The first sender of its line also takes the lock of the sender's group; it waits for at most
  /// `timeout_ns` (0: the default). Errors: no_space, those of the lock.
  Result<MailboxWords> words(std::uint32_t owner, std::uint32_t sender,
                             std::uint64_t timeout_ns = 0);
  /// The word of mailbox `owner` that endpoint `sender` writes; null if it has no tile yet.
  std::byte* find_word(std::uint32_t owner, std::uint32_t sender) const;
  /// See MailboxTiles.
  void repair_lock_line(std::uint32_t slot) { tiles_.repair_lock_line(slot); }

  const MailboxTiles& tiles() const { return tiles_; }
  /// The rows of statistics of a slot's endpoint.
  std::byte* rows(std::uint32_t slot) const { return body_ + tiles_.layout().rows(slot); }
  std::uint64_t key() const { return key_; }
  std::byte* line_of(std::uint32_t slot) const { return body_ + tiles_.layout().line(slot); }

 private:
  EndpointTable(arena::Arena& arena, std::byte* head, const TableHead& checked_head);
  bool is_whole(const EndpointLine& line, std::uint32_t slot) const;
  EndpointLine load_own_line(std::uint32_t slot) const;
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
  std::uint32_t processes_;  ///< slots below are the processes' own
  MailboxTiles tiles_;
};

}  // namespace penstock::transport
