// A sender's word in the receiver's mailbox, and the receiver's bell.
#pragma once

#include "transport/layout.hpp"

namespace penstock::transport {

class Announcer {
 public:
  Announcer(const coherence::Memory& memory, const MailboxWords& words)
      : memory_(memory), words_(words) {}

  /// Counts from a random number, so that words of earlier channels at this place do not fit.
  void begin(std::uint64_t nonce) { count_ = static_cast<std::uint32_t>(nonce); }
  /// Announces one more message on the channel at `offset`. Also rings the bell if the last
  /// announcement is so old that the receiver may watch only its bell. The bell has many writers;
  /// any value works that differs from the last one seen. The caller does the store fence.
  void announce(std::uint64_t offset, std::uint64_t nonce, std::uint64_t coarse_ns) {
    memory_.publish_word(words_.announcement, MailboxWord::pack(offset, ++count_));
    if (coarse_ns - announced_ns_ < ring_after_ns) return;
    announced_ns_ = coarse_ns;
    if (memory_.mode() != coherence::Mode::hardware)
      memory_.publish_word(words_.bell, nonce + count_);
  }
  /// Announces the offset but no message. The caller does the store fence.
  void announce_again(std::uint64_t offset) {
    memory_.publish_word(words_.announcement, MailboxWord::pack(offset, count_));
  }
  /// `words`: from the table, looked up anew.
  void use(const MailboxWords& words) { words_ = words; }
  /// Time of the last announcement that also looked at the bell, by the coarse clock.
  std::uint64_t announced_ns() const { return announced_ns_; }

 private:
  coherence::Memory memory_;
  MailboxWords words_;
  std::uint32_t count_ = 0;
  std::uint64_t announced_ns_ = 0;
};

}  // namespace penstock::transport
