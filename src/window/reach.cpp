#include "window/reach.hpp"

#include <utility>

#include "pool/checksummed_line.hpp"

namespace penstock::window {

AccessRanges::AccessRanges(Context& context, Signals& signals)
    : context_(context), signals_(signals) {
  if (!context.memory.loads_may_be_stale()) return;
  targets_.resize(context.ranks());
  for (std::uint32_t rank = 0; rank < context.ranks(); ++rank) {
    targets_[rank].open = !context.apart(rank) || context.options.stored_by_all ||
                          context.member(rank).bytes <= whole_segment_bytes;
    targets_[rank].patience = context.options.review_bytes;
  }
}

Result<void> AccessRanges::ask(std::uint32_t target, std::uint64_t from, std::uint64_t to,
                               bool by_lock) {
  constexpr const char* what = "a window's first access to a range";
  Target& known = targets_[target];
  const auto turn = PENSTOCK_TRY(context_.turn(what, known.asking));
  if (known.knows(from, to, by_lock)) return {};
  Ranges more = known.ranges;
  if (!more.cover(from, to)) more.include(from, to, context_.member(target).bytes);
  const bool locked = known.by_lock || by_lock;
  publish_want(target, more, locked);
  Missing missing{target};
  const auto look = [&] { signals_.drop_those_who_answered(missing, known.serial); };
  if (auto answered = context_.wait(what, missing, look); !answered) return answered;
  known.ranges = more;
  known.by_lock = locked;
  // A program that comes back to what it left: gives back half as often from now on.
  if (std::exchange(known.gave_back, false)) known.patience *= 2;
  return {};
}

/// Replaces the last want. With fewer ranges it asks for nothing: the target drops its copies of
/// what is left out once more after it has read this, and all puts precede it.
void AccessRanges::publish_want(std::uint32_t target, const Ranges& ranges, bool by_lock) {
  Target& known = targets_[target];
  WantLine line{};
  line.serial = ++known.serial;
  line.by_lock = by_lock ? 1 : 0;
  for (std::size_t i = 0; i < max_ranges; ++i) line.ranges[i] = ranges.all()[i];
  const std::uint64_t place =
      context_.options.sync_area + context_.layout.want(target, context_.self());
  const auto& memory = context_.memory;
  pool::publish_checksummed_line(memory, context_.pool.base(), place, line);
  memory.store_fence();  // the want is at the device before its ring
  memory.publish_word(context_.sync_area(context_.layout.bell(target)),
                      ring_of(context_.self(), known.serial));
  memory.store_fence();  // pairs with Exposure::serve
  if (context_.options.told) context_.options.told(target);
}

/// At each epoch the target goes through all ranges, reached or not. When that has cost as much as
/// a question may, and half of them was in vain, this rank keeps those that it has reached since
/// the last review. A question makes the target write back what all origins reach: so who asks for
/// what it has given back has twice the patience, and the questions of a program that takes turns
/// between ranges become as few as the logarithm of what it goes through.
void AccessRanges::review(std::uint32_t target) {
  Target& known = targets_[target];
  const std::uint64_t bytes = known.ranges.bytes();
  known.gone_through += bytes;
  if (known.gone_through < known.patience) return;
  known.gone_through = 0;
  const Ranges used = std::exchange(known.used, Ranges{});
  // A thread that asks has yet to learn which ranges it gets.
  if (known.asking || used.bytes() > bytes / 2 || !known.ranges.cover(used)) return;
  known.ranges = used;
  known.gave_back = true;
  publish_want(target, used, known.by_lock);
}

}  // namespace penstock::window
