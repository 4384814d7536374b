// Rank 0 allocates the slots when it reaches the first call that needs them. Then it publishes
// their place once, in tagged lines that were zero before. The others read it in that call only: a
// rank past that call knows the slots for good.
#include "coll/late_slots.hpp"

#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/format.hpp"

namespace penstock::coll {

namespace {

constexpr std::uint64_t announcement_tag = 1;

/// The text comes from the pool and is shown to the user, so it must not hold control characters.
std::string printable(std::string_view text) {
  std::string shown(text);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

}  // namespace

struct LateSlots::Announcement {
  TakenSlots slots;
  std::uint64_t text_bytes = 0;  ///< not 0: there is no room
  std::array<char, 408> text{};  ///< the reason
};

Result<LateSlots::Announcement> LateSlots::allocate_and_announce() {
  static_assert(sizeof(Announcement) == late_slots_lines * coherence::tagged_bytes);
  const auto taken = take_();
  if (!taken && taken.error().code != ErrorCode::no_space) return unexpected(taken.error());
  Announcement announcement;
  if (taken) {
    announcement.slots = *taken;
  } else {
    const std::string& text = taken.error().message;
    announcement.text_bytes = std::min(text.size(), announcement.text.size());
    std::memcpy(announcement.text.data(), text.data(), announcement.text_bytes);
  }
  // Pairs with look().
  s_.group.memory.publish_tagged(s_.at(s_.layout.late_slots()), &announcement, sizeof announcement,
                                 announcement_tag);
  s_.published();
  s_.send_off();
  return announcement;
}

std::optional<LateSlots::Announcement> LateSlots::look() const {
  const auto& memory = s_.memory_of(0);
  const std::byte* const lines = s_.at(s_.layout.late_slots());
  Announcement announcement;
  memory.invalidate(lines, late_slots_lines * line_bytes);
  memory.load_fence();
  if (memory.load_tagged(&announcement, lines, sizeof announcement, announcement_tag) !=
      sizeof announcement)
    return std::nullopt;
  return announcement;
}

Result<void> LateSlots::adopt(const char* what, const Announcement& announcement) {
  const std::uint64_t bytes = announcement.slots.slot_bytes,
                      offset = announcement.slots.area.offset;
  if (announcement.text_bytes != 0)
    return fail(ErrorCode::no_space, "{}: {} found no room for the slots of long calls: {}", what,
                s_.group.name(0),
                printable({announcement.text.data(),
                           std::min(announcement.text_bytes, announcement.text.size())}));
  const bool fits =
      bytes > 0 && bytes <= s_.shape.slot_bytes && (bytes | offset) % line_bytes == 0 &&
      s_.group.pool.at(offset, Slots::count(s_.group.ranks(), s_.shape) * bytes) != nullptr;
  if (!fits)
    return fail(
        ErrorCode::wrong_format,
        "{}: {} tells of slots of {} bytes at pool offset {}, and they cannot be there: the "
        "pool was damaged; make it anew: penstock pool create SPEC --overwrite",
        what, s_.group.name(0), bytes, offset);
  s_.slots.set_area(s_.group.pool.base() + offset, bytes);
  return {};
}

Result<bool> LateSlots::obtain(const char* what, Missing& missing) {
  const bool takes = s_.self() == 0;
  const auto announcement = takes ? std::optional(PENSTOCK_TRY(allocate_and_announce())) : look();
  if (announcement) PENSTOCK_TRY(adopt(what, *announcement));
  if (!announcement) missing.assign(1, 0);
  return announcement.has_value();
}

std::optional<TakenSlots> LateSlots::taken() const {
  const auto announcement = look();
  if (!announcement || announcement->text_bytes != 0) return std::nullopt;
  return announcement->slots;
}

}  // namespace penstock::coll
