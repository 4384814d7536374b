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

Result<void> Movement::check(const Call& call, const coll::Prepared& prepared) {
  const coll::Schedule& schedule = prepared.schedule;
  if (call.reducing) PENSTOCK_TRY(device_->combine_kernel(call.reducing->type));
  for (const coll::Step& step : schedule.steps)
    if (step.operand_count > max_operands)
      return fail(ErrorCode::invalid_argument,
                  "{}: a GPU reduces the values of {} ranks at most, and there are {}", call.name,
                  max_operands, step.operand_count);
  if (!coll::can_combine_at_once(schedule, call.input == call.output))
    return fail(
        ErrorCode::invalid_argument,
        "{}: in place, a GPU cannot reduce blocks of different lengths: the result lies over "
        "input that is still needed; give it an output of its own",
        call.name);
  PENSTOCK_TRY(results_.ensure(schedule.scratch_bytes, "scratch memory of a collective"));
  return scratch_.ensure(schedule, prepared.plan.scratch_from);
}

cuda::DevicePointer Movement::in_pool(const std::byte* memory) const {
  for (const Pinned& pinned : pinned_)
    if (pinned.has(memory)) return pinned.at(memory);
  return 0;
}

cuda::DevicePointer Movement::at(const Call& call, const coll::Span& span) const {
  if (span.buffer == coll::Buffer::scratch) return results_.at() + span.offset;
  return place_of(call, span);
}

void Movement::describe(const Call& call, const coll::Prepared& prepared, std::uint64_t collective,
                        const coll::Step& step, Moved& moved) const {
  const auto chunk = [&](std::uint32_t rank, std::uint64_t number, std::uint64_t at) {
    return in_pool(core_.chunk_of(prepared, collective, rank, number) + at);
  };
  const bool publishes = step.kind == coll::StepKind::publish;
  moved.to = publishes ? chunk(core_.self(), step.chunk, step.at) : at(call, step.span);
  moved.bytes = step.span.bytes;
  moved.combines = false;
  moved.operands = 1;
  if (publishes) moved.from[0] = at(call, step.span);
  if (step.kind == coll::StepKind::copy) moved.from[0] = chunk(step.rank, step.chunk, step.at);
  if (step.kind == coll::StepKind::move) moved.from[0] = at(call, step.from);
  if (step.kind != coll::StepKind::combine) return;
  moved.operands = step.operand_count;
  moved.combines = step.operand_count != 1 || !copies_one(*call.reducing);
  for (std::uint32_t i = 0; i < step.operand_count; ++i) {
    const coll::Operand& value = prepared.schedule.operands[step.first_operand + i];
    moved.own[i] = value.own;
    moved.from[i] = value.own ? at(call, value.span) : chunk(value.rank, value.chunk, value.at);
  }
}

Result<void> Movement::move(const Call& call, const coll::Prepared& prepared,
                            std::uint64_t collective, const coll::Step& step, Lanes& lanes,
                            Lane lane) {
  Moved moved;
  describe(call, prepared, collective, step, moved);
  if (moved.is_nothing()) return {};
  const cuda::Driver& driver = device_->driver();
  if (!moved.combines)
    return driver.check(driver.copy(moved.to, moved.from[0], moved.bytes, lanes.stream(lane)),
                        "a copy");
  if (scratch_.takes(moved, prepared.plan.scratch_from))
    return scratch_.reduce(*call.reducing, core_.ranks(), moved, lanes, lane);
  Combine combining;
  combining.result = reinterpret_cast<void*>(moved.to);
  combining.elements = moved.bytes / coll::bytes_of(call.reducing->type);
  combining.operands = moved.operands;
  for (std::uint32_t i = 0; i < moved.operands; ++i)
    combining.operand[i] = reinterpret_cast<const void*>(moved.from[i]);
  return launch(*device_, *call.reducing, core_.ranks(), combining, lanes.stream(lane));
}

}  // namespace penstock::gpu
