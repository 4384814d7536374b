#include "coll/executor.hpp"

#include <cstring>

#include "base/clock.hpp"

namespace penstock::coll {

void Executor::begin(const Call& call, const Prepared& prepared) {
  call_ = call;
  prepared_ = &prepared;
  if (trace_ != nullptr) recorded_until_ns_ = base::now_ns();
  if (scratch_.size() < prepared.schedule.scratch_bytes)
    scratch_.resize(prepared.schedule.scratch_bytes);
}

std::byte* Executor::to(const Span& span) {
  return (span.buffer == Buffer::scratch ? scratch_.data() : call_.output) + span.offset;
}

const std::byte* Executor::from(const Span& span) const {
  const std::byte* begin = call_.input;
  if (span.buffer == Buffer::scratch) begin = scratch_.data();
  if (span.buffer == Buffer::output) begin = call_.output;
  return begin + span.offset;
}

void Executor::move(const Step& step) {
  std::memmove(to(step.span), from(step.from), step.span.bytes);
}

/// Records one span for all the steps, with the name of the first.
void Executor::record(std::size_t first, std::size_t end) {
  const auto& steps = prepared_->schedule.steps;
  if (first == end) return;
  const Step& step = steps[first];
  TraceSpan span{.begin_ns = recorded_until_ns_,
                 .end_ns = base::now_ns(),
                 .communicator = static_cast<std::uint32_t>(
                     s_.group.pool.offset_of(s_.at(0)).value_or(0) / line_bytes),
                 .number = static_cast<std::uint32_t>(s_.number),
                 .rank = s_.self(),
                 .peer = step.rank,
                 .chunk = static_cast<std::uint32_t>(step.chunk),
                 .kind = step.kind,
                 .lane = step.lane};
  for (std::size_t i = first; i < end; ++i) {
    const bool reduces = steps[i].kind == StepKind::combine;
    span.bytes += steps[i].span.bytes * (reduces ? steps[i].operand_count : 1);
  }
  if (step.kind == StepKind::publish || step.kind == StepKind::copy)
    span.device = static_cast<std::uint16_t>(s_.slots.device_of(
        prepared_->plan.devices, step.rank, prepared_->plan.eager ? 0 : step.chunk));
  trace_->add(span);
  recorded_until_ns_ = span.end_ns;
}

}  // namespace penstock::coll
