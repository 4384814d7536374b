#include "coll/size_check.hpp"

#include <cstring>

#include "base/format.hpp"
#include "schedule/uniform.hpp"

namespace penstock::coll {

namespace {

std::uint64_t sent_to(const Problem& call, std::uint32_t rank) {
  const bool to_root = ends_at_root(call.collective);
  if (call.input.empty() || (to_root && rank != call.root)) return 0;
  return call.input[spreads(call.collective) ? rank : 0].bytes;
}

std::uint64_t expected_of(const Problem& call, std::uint32_t rank) {
  const bool from_root = begins_at_root(call.collective);
  if (call.output.empty() || (from_root && rank != call.root)) return 0;
  return call.output[gathers(call.collective) ? rank : 0].bytes;
}

}  // namespace

bool SizeCheck::concerns(Collective collective) {
  return spreads(collective) || gathers(collective);
}

template <class Element>
void SizeCheck::make(Collective collective) {
  const std::size_t all = ranks_ * sizeof(Element);
  problem_ = uniform_problem(collective, ranks_, self_, 0, sizeof(Element));
  input_.resize(spreads(collective) ? all : sizeof(Element));
  output_.resize(all);
}

const Problem& SizeCheck::exchange(const Problem& call) {
  make<Sizes>(Collective::alltoall);
  own_.clear();
  for (std::uint32_t rank = 0; rank < ranks_; ++rank)
    own_.push_back({.sent = sent_to(call, rank), .expected = expected_of(call, rank)});
  std::memcpy(input_.data(), own_.data(), input_.size());
  return problem_;
}

SizeCheck::Finding SizeCheck::first_difference() const {
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    Sizes theirs;
    std::memcpy(&theirs, output_.data() + rank * sizeof theirs, sizeof theirs);
    if (theirs.sent != own_[rank].expected)
      return {1, rank, self_, {theirs.sent, own_[rank].expected}};
    if (theirs.expected != own_[rank].sent)
      return {1, self_, rank, {own_[rank].sent, theirs.expected}};
  }
  return {};
}

const Problem& SizeCheck::find() {
  const Finding found = first_difference();
  make<Finding>(Collective::allgather);
  std::memcpy(input_.data(), &found, sizeof found);
  return problem_;
}

Result<void> SizeCheck::verdict(const char* what) const {
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    Finding found;
    std::memcpy(&found, output_.data() + rank * sizeof found, sizeof found);
    if (found.differs != 0)
      return fail(ErrorCode::mismatch,
                  "{}: rank {} sends {} bytes to rank {}, which expects {}: the sizes that both "
                  "name must be the same",
                  what, found.sender, found.sizes.sent, found.receiver, found.sizes.expected);
  }
  return {};
}

}  // namespace penstock::coll
