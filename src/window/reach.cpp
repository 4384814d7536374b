#include "window/reach.hpp"

#include "pool/sealed_line.hpp"

namespace penstock::window {

Reach::Reach(Context& context, Signals& signals) : context_(context), signals_(signals) {
  if (!context.memory.loads_may_be_stale()) return;
  targets_.resize(context.ranks());
  for (std::uint32_t rank = 0; rank < context.ranks(); ++rank) {
    targets_[rank].open = !context.apart(rank) || context.options.stored_by_all ||
                          context.member(rank).bytes <= whole_segment_bytes;
  }
}

Result<void> Reach::ask(std::uint32_t target, std::uint64_t from, std::uint64_t to) {
  Target& known = targets_[target];
  Ranges more = known.ranges;
  more.include(from, to, context_.member(target).bytes);
  WantLine line{};
  line.serial = ++known.serial;
  for (std::size_t i = 0; i < most_ranges; ++i) line.ranges[i] = more.all()[i];
  const std::uint64_t place = context_.options.area + context_.layout.want(target, context_.self());
  pool::publish_sealed_line(context_.memory, context_.pool.base(), place, line);
  signals_.ask(target, known.serial);
  Missing missing{target};
  const auto look = [&] { signals_.drop_those_who_answered(missing, known.serial); };
  if (auto answered = context_.wait("a window's first access to a range", missing, look); !answered)
    return answered;
  known.ranges = more;
  return {};
}

}  // namespace penstock::window
