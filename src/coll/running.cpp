#include "coll/running.hpp"

#include <cstring>

namespace penstock::coll {

void Running::begin(const Call& call, const Prepared& prepared) {
  call_ = call;
  prepared_ = &prepared;
  if (scratch_.size() < prepared.schedule.scratch_bytes)
    scratch_.resize(prepared.schedule.scratch_bytes);
}

std::byte* Running::to(const Span& span) {
  return (span.buffer == Buffer::scratch ? scratch_.data() : call_.output) + span.offset;
}

const std::byte* Running::from(const Span& span) const {
  const std::byte* begin = call_.input;
  if (span.buffer == Buffer::scratch) begin = scratch_.data();
  if (span.buffer == Buffer::output) begin = call_.output;
  return begin + span.offset;
}

void Running::move(const Step& step) {
  std::memmove(to(step.span), from(step.from), step.span.bytes);
}

}  // namespace penstock::coll
