#include "accelerator/served.hpp"

#include <algorithm>
#include <numeric>

#include "base/clock.hpp"
#include "base/log.hpp"

namespace penstock::accelerator {

namespace {

using offload::Command;
using offload::Completion;
using offload::Operation;
using offload::Packet;
using offload::Status;

std::vector<std::uint32_t> numbers_below(std::uint32_t end) {
  std::vector<std::uint32_t> numbers(end);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

bool same_call(const Command& a, const Command& b) {
  const bool one_has_operand = a.operation == Operation::broadcast;
  const bool same_size =
      one_has_operand || (a.elements == b.elements && a.operand.bytes == b.operand.bytes);
  return a.operation == b.operation && a.reduction == b.reduction && a.datatype == b.datatype &&
         a.sequence == b.sequence && a.ranks == b.ranks && a.root == b.root && a.chunk == b.chunk &&
         a.last_chunk == b.last_chunk && a.partial == b.partial && same_size;
}

Served::Served(const pool::Pool& pool, const offload::Region& region,
               std::uint64_t missing_after_ns)
    : pool_(pool),
      region_(region),
      missing_after_ns_(missing_after_ns),
      combining_(pool),
      members_(region.shape().ranks) {}

Refusal Served::refusal_of(const std::vector<Command>& commands, std::uint64_t result) const {
  for (const Command& command : commands)
    if (!same_call(commands.front(), command)) return {Status::mismatch, command.rank};
  return combining_.check(
      {.commands = &commands, .result = result, .slot_bytes = region_.shape().slot_bytes});
}

Completion Served::compute(const std::vector<Command>& commands, std::uint64_t result) {
  const std::uint64_t begin_ns = base::now_ns();
  pool_.confirm();  // a process that was declared dead must store nothing more
  const Command& first = leading(commands);
  Completion completion{.operation = first.operation,
                        .datatype = first.datatype,
                        .communicator = region_.shape().communicator,
                        .sequence = first.sequence,
                        .chunk = first.chunk};
  completion.inlined = combining_.compute(
      {.commands = &commands, .result = result, .slot_bytes = region_.shape().slot_bytes});
  if (completion.inlined.bytes != 0 || completion.operation == Operation::barrier)
    return completion;
  completion.result = result;
  completion.elements = first.elements;
  completion.reduce_ns = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(base::now_ns() - begin_ns, ~std::uint32_t{0}));
  return completion;
}

void Served::answer(const std::vector<std::uint32_t>& rings, std::uint64_t index,
                    const Completion& completion) {
  const auto& memory = pool_.memory();
  memory.store_fence();  // a rank that finds its packet finds the whole result
  Completion own = completion;
  for (const std::uint32_t ring : rings) {
    own.rank = static_cast<std::uint16_t>(ring);
    const Packet packet = offload::seal(own, region_.completion_place(ring, index));
    memory.publish_line(pool_.base() + region_.completion(ring, index), &packet);
    ++counts_.completions;
  }
  memory.store_fence();
}

void Served::fail(const std::vector<std::uint32_t>& rings, std::uint64_t index, Refusal refusal) {
  if (failed_) return;
  failed_ = true;
  ++counts_.failures;
  pool_.confirm();
  answer(rings, index,
         {.operation = Operation::barrier,
          .status = refusal.status,
          .communicator = region_.shape().communicator,
          .culprit = static_cast<std::uint16_t>(refusal.culprit)});
}

void Served::give_up_if_damaged(const Arrivals& arrivals, std::uint64_t index) {
  if (failed_ || !arrivals.damage()) return;
  base::log(base::Level::warn, "communicator {:#x}: {}; its ranks go on without the switch",
            region_.shape().communicator, arrivals.damage()->what);
  fail(arrivals.rings(), index, {Status::malformed, arrivals.damage()->ring});
}

const std::optional<offload::Member>& Served::member(std::uint32_t rank) {
  if (!members_[rank])
    members_[rank] = offload::observe_member(pool_, region_, region_.member_line(rank));
  return members_[rank];
}

bool Served::alive(std::uint32_t rank) {
  return !member(rank) || pool_.alive(members_[rank]->token);
}

/// Only while a rank waits: ranks may end in any order when nothing is outstanding.
void Served::check_ranks(Arrivals& arrivals, std::uint64_t index) {
  if (failed_ || !arrivals.any(index)) return;
  const bool late =
      missing_after_ns_ != 0 && base::now_ns() - arrivals.first_ns(index) > missing_after_ns_;
  for (std::size_t k = 0; k < arrivals.rings().size(); ++k) {
    const std::uint32_t rank = arrivals.rings()[k];
    if (arrivals.has(index, k)) continue;
    if (!alive(rank)) {
      // All that it published before it died is at the device by now.
      if (arrivals.look(index + 1) && arrivals.has(index, k)) continue;
      return fail(arrivals.rings(), index, {Status::rank_dead, rank});
    }
    if (late) return fail(arrivals.rings(), index, {Status::rank_missing, rank});
  }
}

bool Served::is_deserted() {
  if (pool_.alive(region_.shape().owner)) return false;
  for (std::uint32_t rank = 0; rank < region_.shape().ranks; ++rank)
    if (alive(rank) && members_[rank]) return false;
  return true;
}

Counts Served::counts() const {
  Counts counts = counts_;
  counts.traffic = combining_.traffic();
  return counts;
}

namespace {

/// A switch that serves all ranks by itself.
class Alone final : public Served {
 public:
  Alone(const pool::Pool& pool, const offload::Region& region, std::uint64_t missing_after_ns)
      : Served(pool, region, missing_after_ns),
        arrivals_(pool, region, numbers_below(region.shape().ranks), region.shape().ranks) {}

  bool poll() override {
    if (failed_) return false;
    bool moved = arrivals_.look(done_ + region_.shape().window);
    give_up_if_damaged(arrivals_, done_);
    for (; !failed_ && arrivals_.all(done_); moved = true) complete();
    return moved;
  }
  void check_ranks() override { Served::check_ranks(arrivals_, done_); }
  Counts counts() const override {
    Counts counts = Served::counts();
    counts.commands = arrivals_.taken();
    return counts;
  }

 private:
  /// Gathers, reduces and broadcasts.
  void complete() {
    const std::uint64_t gathered_ns = base::now_ns() - arrivals_.first_ns(done_);
    arrivals_.commands(done_, commands_);
    const std::uint64_t result = region_.result(0, done_);
    const Refusal refusal = refusal_of(commands_, result);
    if (refusal.status != Status::ok) return fail(arrivals_.rings(), done_, refusal);
    Completion completion = compute(commands_, result);
    if (completion.inlined.bytes == 0)
      completion.gather_ns =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(gathered_ns, ~std::uint32_t{0}));
    answer(arrivals_.rings(), done_, completion);
    arrivals_.clear(done_++);
    ++counts_.chunks;
  }

  Arrivals arrivals_;
  std::uint64_t done_ = 0;  ///< the index of the next chunk
};

}  // namespace

std::unique_ptr<Served> serve_alone(const pool::Pool& pool, const offload::Region& region,
                                    std::uint64_t missing_after_ns) {
  return std::make_unique<Alone>(pool, region, missing_after_ns);
}

std::unique_ptr<Served> serve(const offload::Role& role, const pool::Pool& pool,
                              const offload::Region& region, std::uint64_t missing_after_ns) {
  if (role.number != 0) return serve_as_leaf(role.number - 1, pool, region, missing_after_ns);
  if (role.leaves != 0) return serve_as_spine(pool, region);
  return serve_alone(pool, region, missing_after_ns);
}

}  // namespace penstock::accelerator
