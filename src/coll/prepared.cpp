#include "coll/prepared.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/format.hpp"
#include "coll/layout.hpp"

namespace penstock::coll {

namespace {

/// Finds what the eager form reads: for each wait, the bytes that a later copy or combine needs, or
/// one line that only shows that the rank is there.
void find_reads(Prepared& made) {
  const Schedule& schedule = made.schedule;
  const auto stage = [&](std::uint32_t rank, std::uint64_t at, std::uint64_t bytes) {
    made.reads.push_back({rank, at, bytes, -1, made.staged_bytes});
    made.staged_bytes += base::align_up(bytes, coherence::line_bytes);
    return made.reads.back().staged_at;
  };
  made.staged_operand.resize(schedule.operands.size());
  std::vector<std::uint32_t> waited;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == StepKind::wait) waited.push_back(step.rank);
    if (step.kind == StepKind::copy)
      made.reads.push_back({step.rank, step.at, step.span.bytes, static_cast<std::int64_t>(i), 0});
    if (step.kind != StepKind::combine) continue;
    for (std::uint32_t k = 0; k < step.operand_count; ++k) {
      const Operand& operand = schedule.operands[step.first_operand + k];
      if (!operand.own)
        made.staged_operand[step.first_operand + k] =
            stage(operand.rank, operand.at, step.span.bytes);
    }
  }
  for (const std::uint32_t rank : waited) {
    const bool is_read = std::any_of(made.reads.begin(), made.reads.end(),
                                     [&](const EagerRead& read) { return read.rank == rank; });
    if (!is_read) stage(rank, 0, bare_bytes);
  }
}

/// A chunk's number has limited bits in a word.
Result<void> check_chunks(const Problem& problem, const Schedule& schedule) {
  for (const Step& step : schedule.steps) {
    if (step.chunk >= max_chunks)
      return fail(ErrorCode::invalid_argument, "{}: more than {} chunks; longer slots are needed",
                  name_of(problem.collective), max_chunks);
  }
  return {};
}

void prepare_eager(Prepared& made) {
  const auto& steps = made.schedule.steps;
  const auto of_kind = [&](StepKind kind) {
    return std::find_if(steps.begin(), steps.end(),
                        [kind](const Step& step) { return step.kind == kind; });
  };
  const auto reading = std::min(of_kind(StepKind::wait), of_kind(StepKind::combine));
  made.first_reading = static_cast<std::size_t>(reading - steps.begin());
  made.publishes_nothing =
      of_kind(StepKind::ring) != steps.end() && of_kind(StepKind::publish) == steps.end();
  find_reads(made);
}

}  // namespace

Prepared::Prepared(const Problem& of, const Plan& by) : problem(of), plan(by), facts(facts_of(of)) {
  for (const Block& block : of.input) input_bytes += block.bytes;
}

Result<const Prepared*> PreparedSchedules::get(const Problem& problem, const Plan& plan) {
  return PENSTOCK_TRY(find_or_make(problem, plan));
}

Result<const Prepared*> PreparedSchedules::get_moved(const Problem& problem, const Plan& plan) {
  Prepared* const found = PENSTOCK_TRY(find_or_make(problem, plan));
  if (found->program.events.empty()) {
    found->program = lane_program_of(found->schedule);
    found->fused = fused_program_of(found->program, found->schedule);
  }
  return found;
}

const Prepared* PreparedSchedules::get_moved_by_switch(const Problem& problem, const Plan& plan,
                                                       std::uint64_t packets,
                                                       const std::function<Schedule()>& make) {
  if (Prepared* const found = find(problem, plan, packets)) return found;
  auto made = std::make_shared<Prepared>(problem, plan);
  made->schedule = make();
  made->program = lane_program_of(made->schedule);
  made->switch_packets = packets;
  return keep(std::move(made));
}

Result<const Prepared*> PreparedSchedules::get_direct(const Problem& problem, const Plan& plan,
                                                      const Layout& layout) {
  Prepared* const found = PENSTOCK_TRY(find_or_make(problem, plan));
  if (found->fused.empty()) {
    found->direct = direct_program_of(found->schedule, layout, problem.ranks, problem.rank);
    found->fused = fused_program_of(found->direct, found->schedule);
  }
  return found;
}

Result<const Prepared*> PreparedSchedules::get_flagged(const Problem& problem, const Plan& plan) {
  Prepared* const found = PENSTOCK_TRY(find_or_make(problem, plan));
  if (!found->flagged) found->flagged = flagged_program_of(found->schedule);
  return found;
}

Result<std::shared_ptr<Prepared>> PreparedSchedules::make(const Problem& problem,
                                                          const Plan& plan) const {
  Schedule schedule = PENSTOCK_TRY(build(problem, plan, nodes_));
  PENSTOCK_TRY(check_chunks(problem, schedule));
  auto made = std::make_shared<Prepared>(problem, plan);
  made->schedule = std::move(schedule);
  made->read_by_all = made->schedule.consumers.size() + 1 == problem.ranks;
  if (plan.eager) prepare_eager(*made);
  return made;
}

Prepared* PreparedSchedules::find(const Problem& problem, const Plan& plan,
                                  std::uint64_t switch_packets) const {
  const auto is_it = [&](const std::shared_ptr<Prepared>& entry) {
    return entry != nullptr && entry->problem == problem && entry->plan == plan &&
           entry->switch_packets == switch_packets;
  };
  for (const auto& entry : entries_)
    if (is_it(entry)) return entry.get();
  return is_it(last_long_) ? last_long_.get() : nullptr;
}

Prepared* PreparedSchedules::keep(std::shared_ptr<Prepared> made) {
  const bool is_long = made->schedule.steps.size() > long_steps;
  auto& entry = is_long ? last_long_ : entries_[next_++ % entries_.size()];
  entry = std::move(made);
  return entry.get();
}

Result<Prepared*> PreparedSchedules::find_or_make(const Problem& problem, const Plan& plan) {
  if (Prepared* const found = find(problem, plan, 0)) return found;
  return keep(PENSTOCK_TRY(make(problem, plan)));
}

}  // namespace penstock::coll
