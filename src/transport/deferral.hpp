// Whether an unexpected long message stays in the pool for now.
#pragma once

#include <cstdint>

namespace penstock::transport {

class Deferral {
 public:
  /// True: if no receive waits for a message of so many bytes, it may stay in the pool.
  bool may_wait(std::uint64_t bytes, std::uint64_t no_deferral_until_ns) const;
  /// True: it may stay there if this process has no room for it.
  bool may_wait_for_room(std::uint64_t bytes, std::uint64_t no_deferral_until_ns) const;
  /// The message stays.
  void begin();
  /// The message got a buffer.
  void end() { since_ns_ = 0; }
  /// A message that might have stayed was `posted` or not.
  void note(std::uint64_t bytes, bool posted);
  /// True if a message has stayed for less than `ns`.
  bool is_shorter_than(std::uint64_t ns, std::uint64_t now_ns) const {
    return since_ns_ != 0 && now_ns - since_ns_ < ns;
  }

 private:
  std::uint64_t since_ns_ = 0;         ///< 0: not deferred
  std::uint32_t undeferred_left_ = 0;  ///< next unexpected messages that are not deferred
};

}  // namespace penstock::transport
