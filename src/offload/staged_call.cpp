#include "offload/staged_call.hpp"

#include <algorithm>
#include <utility>

#include "coll/mover.hpp"

namespace penstock::coll {

namespace {

std::uint64_t end_of(const std::vector<Block>& blocks) {
  std::uint64_t end = 0;
  for (const Block& block : blocks) end = std::max(end, block.offset + block.bytes);
  return end;
}

Span without_first(Buffer buffer, const Block& block, std::uint64_t bytes) {
  const std::uint64_t done = std::min(bytes, block.bytes);
  return {buffer, block.offset + done, block.bytes - done};
}

}  // namespace

Result<void> StagedCall::fetch(const Call& call, std::uint64_t done) {
  mover_ = call.mover;
  problem_ = call.problem;
  done_ = done;
  std::uint64_t bytes = end_of(problem_->input);
  if (problem_->in_place) bytes = std::max(bytes, end_of(problem_->output));
  input_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  if (!problem_->in_place)
    output_ = std::make_unique_for_overwrite<std::byte[]>(end_of(problem_->output));
  for (const Block& block : problem_->input) {
    const Span span = without_first(Buffer::input, block, done_);
    PENSTOCK_TRY(mover_->fetch(input_.get() + span.offset, span));
  }
  return {};
}

Call StagedCall::on_host(const Call& call) const {
  Call staged = call;
  staged.mover = nullptr;
  staged.input = input_.get();
  staged.output = problem_->in_place ? input_.get() : output_.get();
  return staged;
}

Result<void> StagedCall::store() {
  const std::byte* const from = problem_->in_place ? input_.get() : output_.get();
  Mover* const mover = std::exchange(mover_, nullptr);
  for (const Block& block : problem_->output) {
    const Span span = without_first(Buffer::output, block, done_);
    PENSTOCK_TRY(mover->store(span, from + span.offset));
  }
  input_.reset();
  output_.reset();
  return {};
}

}  // namespace penstock::coll
