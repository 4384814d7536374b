// Builds the arguments of a flagged call's launch (flagged.hpp) from its program
// (coll/flagged_program.hpp).
#pragma once

#include "coll/communicator.hpp"
#include "coll/direct_program.hpp"
#include "coll/prepared.hpp"
#include "gpu/flagged.hpp"
#include "gpu/moved.hpp"

namespace penstock::gpu {

static_assert(max_flagged_ranks == coll::max_flagged_ranks &&
              flagged_staging_bytes == coll::max_flagged_read);

/// `Places` gives addresses: at(span), and in_pool(memory of the communicator).
template <class Places>
class FlaggedArguments {
 public:
  FlaggedArguments(FlaggedCall& made, const coll::Communicator& core,
                   const coll::Prepared& prepared, const Places& places)
      : made_(made), core_(core), prepared_(prepared), places_(places) {}

  /// `combines_one`: a reduction of one operand changes it.
  void add_all(bool combines_one) {
    const coll::FlaggedProgram& program = *prepared_.flagged;
    made_.ranks = core_.ranks();
    made_.self = core_.self();
    made_.own = block_of(core_.self(), 0);
    made_.block_units = static_cast<std::uint32_t>(block_of(core_.self(), 1) - made_.own);
    for (const std::uint32_t step : program.keeps) add_move(step, combines_one);
    made_.keeps = made_.moves;
    for (const std::uint32_t step : program.publishes) add_put(prepared_.schedule.steps[step]);
    for (const coll::EagerRead& read : prepared_.reads) add_take(read);
    for (const std::uint32_t step : program.moves) add_move(step, combines_one);
  }

 private:
  FlaggedUnit* block_of(std::uint32_t rank, std::uint64_t block) const {
    return reinterpret_cast<FlaggedUnit*>(places_.in_pool(core_.flagged_block_of(rank, block)));
  }
  void* at(const coll::Span& span) const { return reinterpret_cast<void*>(places_.at(span)); }

  void add_put(const coll::Step& step) {
    made_.put[made_.puts++] = {.from = at(step.span),
                               .unit = static_cast<std::uint32_t>(step.at / coll::unit_payload),
                               .bytes = static_cast<std::uint32_t>(step.span.bytes)};
  }

  void add_take(const coll::EagerRead& read) {
    const bool is_copy = read.copy >= 0;
    made_.take[made_.takes++] = {
        .from = block_of(read.rank, 0) + read.at / coll::unit_payload,
        .to = is_copy ? at(prepared_.schedule.steps[static_cast<std::size_t>(read.copy)].span)
                      : nullptr,
        .bytes = static_cast<std::uint32_t>(read.bytes),
        .staged_at = static_cast<std::uint32_t>(is_copy ? 0 : read.staged_at)};
    made_.hears |= std::uint64_t{1} << read.rank;
  }

  void add_move(std::uint32_t number, bool combines_one) {
    const coll::Step& step = prepared_.schedule.steps[number];
    const std::uint8_t first = made_.operands;
    if (step.kind == coll::StepKind::move) {
      add_operand({.at = at(step.from)});
    } else {
      for (std::uint32_t i = 0; i < step.operand_count; ++i) {
        const std::uint32_t operand = step.first_operand + i;
        const coll::Operand& value = prepared_.schedule.operands[operand];
        if (value.own)
          add_operand({.at = at(value.span)});
        else
          add_operand({.at = nullptr, .staged_at = prepared_.staged_operand[operand]});
      }
    }
    const auto operands = static_cast<std::uint8_t>(made_.operands - first);
    const bool combines = step.kind == coll::StepKind::combine && (operands != 1 || combines_one);
    void* const to = at(step.span);
    if (!combines && to == made_.operand[first].at) {  // in place
      made_.operands = first;
      return;
    }
    made_.move[made_.moves++] = {.to = to,
                                 .bytes = static_cast<std::uint32_t>(step.span.bytes),
                                 .first = first,
                                 .operands = operands,
                                 .combines = combines};
  }
  void add_operand(const FlaggedCall::Operand& operand) {
    made_.operand[made_.operands++] = operand;
  }

  FlaggedCall& made_;
  const coll::Communicator& core_;
  const coll::Prepared& prepared_;
  const Places& places_;
};

}  // namespace penstock::gpu
