#include "window/reach.hpp"

#include <utility>

#include "pool/checksummed_line.hpp"

namespace penstock::window {

AccessRanges::AccessRanges(Context& context, Directory& directory, Signals& signals)
    : context_(context), directory_(directory), signals_(signals) {
  if (!context.any_apart() || context.options.is_shared) return;
  closed_.resize(context.ranks());
  for (std::uint32_t rank = 0; rank < context.ranks(); ++rank)
    closed_[rank] = context.apart(rank) && context.member(rank).bytes > whole_segment_bytes;
}

void AccessRanges::make(std::uint32_t target) {
  if (targets_.empty()) targets_.resize(context_.ranks());
  targets_[target] = std::make_unique<Target>();
  targets_[target]->patience = context_.options.review_bytes;
}

Result<void> AccessRanges::ask(std::uint32_t target, std::uint64_t from, std::uint64_t to,
                               bool by_lock) {
  constexpr const char* what = "a window's first access to a range";
  Target& known = at(target);
  const auto turn = PENSTOCK_TRY(context_.turn(what, known.asking));
  if (known.knows(from, to, by_lock)) return {};
  Ranges more = known.ranges;
  if (!more.cover(from, to)) more.include(from, to, context_.member(target).bytes);
  const bool locked = known.by_lock || by_lock;
  PENSTOCK_TRY(directory_.prepare(target));
  publish_want(target, more, locked);
  Missing missing{target};
  const auto look = [&] {
    signals_.remove_answered(missing, known.serial);
    if (!missing.empty()) ring(target);  // another rank's ring may have replaced ours
  };
  if (auto answered = context_.wait(what, missing, look); !answered) return answered;
  known.ranges = more;
  known.by_lock = locked;
  // A program that returns to such a range: return ranges half as often from now on.
  if (std::exchange(known.returned_ranges, false)) known.patience *= 2;
  return {};
}

/// Replaces the last want. With fewer ranges it requests nothing: after it has read this, the
/// target invalidates its copies of the omitted ranges once more, and all puts precede it.
void AccessRanges::publish_want(std::uint32_t target, const Ranges& ranges, bool by_lock) {
  Target& known = at(target);
  WantLine line{};
  line.serial = ++known.serial;
  line.by_lock = by_lock ? 1 : 0;
  for (std::size_t i = 0; i < max_ranges; ++i) line.ranges[i] = ranges.all()[i];
  const std::uint64_t place = directory_.to(target) + want_at;
  pool::publish_checksummed_line(context_.memory, context_.pool.base(), place, line);
  context_.memory.store_fence();  // the want is at the device before its ring
  ring(target);
}

void AccessRanges::ring(std::uint32_t target) {
  const auto& memory = context_.memory;
  std::byte* const bell = context_.line(RankLine::bell, target);
  memory.publish_word(bell + 8 * bell_word_of(context_.self()),
                      ring_of(context_.self(), at(target).serial));
  memory.store_fence();  // pairs with Exposure::serve
  if (context_.options.on_request) context_.options.on_request(target);
}

/// At each epoch the target covers all ranges, accessed or not. When that has cost as much as a
/// request, and at least half of it in vain, this rank keeps only the ranges that it has accessed
/// since the last review. A request makes the target write back the ranges of all origins, so a
/// rank that requests a returned range doubles its patience: the number of requests of a program
/// that alternates between ranges grows with the logarithm of the covered bytes only.
void AccessRanges::review(std::uint32_t target) {
  Target& known = at(target);
  const std::uint64_t bytes = known.ranges.bytes();
  known.covered_bytes += bytes;
  if (known.covered_bytes < known.patience) return;
  known.covered_bytes = 0;
  const Ranges used = std::exchange(known.used, Ranges{});
  // a thread that is asking does not know yet which ranges it gets
  if (known.asking || used.bytes() > bytes / 2 || !known.ranges.cover(used)) return;
  known.ranges = used;
  known.returned_ranges = true;
  publish_want(target, used, known.by_lock);
}

}  // namespace penstock::window
