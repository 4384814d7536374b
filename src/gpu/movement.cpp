#include "gpu/movement.hpp"

#include "base/format.hpp"

namespace penstock::gpu {

Result<std::unique_ptr<Movement>> Movement::make(coll::Communicator& core,
                                                 const std::vector<Area>& areas,
                                                 std::shared_ptr<const Device> device) {
  std::unique_ptr<Movement> made(new Movement(core, device));
  for (const Area& area : areas)
    made->pinned_.push_back(PENSTOCK_TRY(Pinned::make(device, area.begin, area.bytes)));
  return made;
}

Movement::~Movement() {
  const Device::Scope scope(*device_);
  for (const cuda::DevicePointer memory : scratch_) (void)device_->driver().mem_free(memory);
}

Result<void> Movement::check(const Call& call, const coll::Schedule& schedule) {
  if (call.reducing) PENSTOCK_TRY(device_->combine_kernel(call.reducing->type));
  for (const coll::Step& step : schedule.steps)
    if (step.operand_count > max_operands)
      return fail(ErrorCode::invalid_argument,
                  "{}: a GPU reduces the values of {} ranks at most, and there are {}", call.name,
                  max_operands, step.operand_count);
  return ensure_scratch(schedule.scratch_bytes);
}

/// Streams may still use what is too short now: it stays.
Result<void> Movement::ensure_scratch(std::uint64_t bytes) {
  if (bytes <= scratch_bytes_) return {};
  cuda::DevicePointer memory = 0;
  PENSTOCK_TRY(device_->driver().check(device_->driver().mem_alloc(&memory, bytes),
                                       "scratch memory of a collective"));
  scratch_.push_back(memory);
  scratch_bytes_ = bytes;
  return {};
}

cuda::DevicePointer Movement::in_pool(const std::byte* memory) const {
  for (const Pinned& pinned : pinned_)
    if (pinned.has(memory)) return pinned.at(memory);
  return 0;
}

cuda::DevicePointer Movement::at(const Call& call, const coll::Span& span) const {
  cuda::DevicePointer begin = call.input;
  if (span.buffer == coll::Buffer::output) begin = call.output;
  if (span.buffer == coll::Buffer::scratch) begin = scratch_.back();
  return begin + span.offset;
}

Result<void> Movement::copy(cuda::DevicePointer to, cuda::DevicePointer from, std::uint64_t bytes,
                            cuda::Stream stream) {
  if (bytes == 0 || to == from) return {};
  return device_->driver().check(device_->driver().copy(to, from, bytes, stream), "a copy");
}

Result<void> Movement::move(const Call& call, const coll::Prepared& prepared,
                            std::uint64_t collective, const coll::Step& step, cuda::Stream stream) {
  const cuda::DevicePointer here = at(call, step.span);
  const auto chunk = [&](std::uint32_t rank) {
    return in_pool(core_.chunk_of(prepared, collective, rank, step.chunk) + step.at);
  };
  switch (step.kind) {
    case coll::StepKind::publish:
      return copy(chunk(core_.self()), here, step.span.bytes, stream);
    case coll::StepKind::copy:
      return copy(here, chunk(step.rank), step.span.bytes, stream);
    case coll::StepKind::move:
      return copy(here, at(call, step.from), step.span.bytes, stream);
    case coll::StepKind::combine:
      return combine(call, prepared, collective, step, stream);
    default:
      return {};
  }
}

Result<void> Movement::combine(const Call& call, const coll::Prepared& prepared,
                               std::uint64_t collective, const coll::Step& step,
                               cuda::Stream stream) {
  const auto address_of = [&](std::uint32_t i) {
    const coll::Operand& value = prepared.schedule.operands[step.first_operand + i];
    if (value.own) return at(call, value.span);
    return in_pool(core_.chunk_of(prepared, collective, value.rank, value.chunk) + value.at);
  };
  const cuda::DevicePointer result = at(call, step.span);
  if (step.operand_count == 1 && copies_one(*call.reducing))
    return copy(result, address_of(0), step.span.bytes, stream);
  Combine combining;
  combining.result = reinterpret_cast<void*>(result);
  combining.elements = step.span.bytes / coll::bytes_of(call.reducing->type);
  combining.operands = step.operand_count;
  for (std::uint32_t i = 0; i < step.operand_count; ++i)
    combining.operand[i] = reinterpret_cast<const void*>(address_of(i));
  if (combining.elements == 0) return {};
  return launch(*device_, *call.reducing, core_.ranks(), combining, stream);
}

}  // namespace penstock::gpu
