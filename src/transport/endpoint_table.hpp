// The table of endpoints and their mailboxes: the endpoints that can be reached, and the words by
// which senders announce messages.
#pragma once

#include <optional>
#include <vector>

#include "transport/layout.hpp"
#include "transport/transport.hpp"

namespace penstock::transport {

/// A view of the table; cheap. Claiming and releasing take the pool's lock.
class EndpointTable {
 public:
  /// Opens the pool's table, making it when this is the first endpoint ever.
  static Result<EndpointTable> open(arena::Arena& arena);

  std::uint32_t count() const { return count_; }
  /// Takes a free slot, or one whose process is dead. Errors: no_slots.
  Result<Address> claim(std::uint64_t job);
  /// Stores the user word in the slot's line. Errors: those of the pool's lock.
  Result<void> set_user_word(const Address& address, std::uint64_t user_word);
  /// Marks the slot closed; peers find out at their next check.
  void release(const Address& address);

  /// The line of a slot as it is now, checked; nullopt when the slot was never used, or the line is
  /// torn because the slot is being claimed anew.
  std::optional<EndpointLine> read(std::uint32_t slot) const;
  /// The same, but a torn line is read again under the pool's lock: then it is whole, or its writer
  /// died while writing it. Errors: those of the lock; not_found.
  Result<EndpointLine> read_for_certain(std::uint32_t slot) const;

  /// Word of mailbox `owner` that endpoint `sender` writes.
  void* word(std::uint32_t owner, std::uint32_t sender) const {
    return mailbox(owner) + mailbox_word_bytes * sender;
  }
  MailboxWords words(std::uint32_t owner, std::uint32_t sender) const {
    return {word(owner, sender), word(owner, owner)};
  }
  const void* mailbox_line(std::uint32_t owner, std::uint32_t line) const {
    return mailbox(owner) + line_bytes * line;
  }
  const void* high_water_line() const { return lines_ - line_bytes; }
  /// Lines of a mailbox that are in use, from a high-water line as loaded.
  std::uint32_t mailbox_lines(const HighWater& high_water) const;

 private:
  EndpointTable(arena::Arena& arena, const arena::Object& object, std::uint32_t count);
  /// Finds a slot to claim. `lines`: those of all slots ever used.
  Result<std::uint32_t> find_slot(const std::vector<EndpointLine>& lines, HighWater& water) const;
  /// Changes a word of the endpoint's line, if it still owns the slot. Takes the pool's lock.
  Result<void> change(const Address& address, std::uint64_t EndpointLine::*word,
                      std::uint64_t value);

  std::byte* line_of(std::uint32_t slot) const { return lines_ + sizeof(EndpointLine) * slot; }
  std::byte* mailbox(std::uint32_t owner) const {
    return mailboxes_ + static_cast<std::uint64_t>(owner) * count_ * mailbox_word_bytes;
  }

  arena::Arena* arena_;
  coherence::Memory memory_;
  std::byte* lines_;
  std::byte* mailboxes_;
  std::uint32_t count_;
};

}  // namespace penstock::transport
