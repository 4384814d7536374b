#include "accelerator/served.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::accelerator {

namespace {

using offload::Command;
using offload::Completion;
using offload::Operation;
using offload::Packet;
using offload::Status;

/// A packet whose valid word has come is whole but for a stranger's stores: some more looks, so
/// that a store on its way is not taken for damage.
constexpr std::uint32_t looks_at_damage = 64;

std::uint32_t nanoseconds(std::uint64_t from_ns, std::uint64_t to_ns) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(to_ns - from_ns, ~std::uint32_t{0}));
}

/// What must be the same on all ranks.
bool same_call(const Command& a, const Command& b) {
  const bool one_has_operand = a.operation == Operation::broadcast;
  const bool same_size =
      one_has_operand || (a.elements == b.elements && a.operand.bytes == b.operand.bytes);
  return a.operation == b.operation && a.reduction == b.reduction && a.datatype == b.datatype &&
         a.sequence == b.sequence && a.ranks == b.ranks && a.root == b.root && a.chunk == b.chunk &&
         a.last_chunk == b.last_chunk && same_size;
}

}  // namespace

Served::Served(const pool::Pool& pool, const offload::Region& region,
               std::uint64_t missing_after_ns)
    : pool_(pool),
      region_(region),
      missing_after_ns_(missing_after_ns),
      combining_(pool),
      arrived_(region.shape().window),
      next_(region.shape().ranks),
      damaged_(region.shape().ranks),
      members_(region.shape().ranks) {
  for (Arrived& arrived : arrived_) arrived.of.resize(region.shape().ranks);
}

bool Served::poll() {
  if (failed_) return false;
  bool moved = look();
  while (!failed_ && arrived(done_).count == region_.shape().ranks) {
    complete();
    moved = true;
  }
  return moved;
}

/// One look at all rings, and more at those that had something.
bool Served::look() {
  const auto& memory = pool_.memory();
  bool some = false;
  looked_.clear();
  for (std::uint32_t rank = 0; rank < region_.shape().ranks; ++rank)
    if (next_[rank] < done_ + region_.shape().window) looked_.push_back(rank);
  for (const std::uint32_t rank : looked_)
    memory.invalidate(pool_.base() + region_.submission(rank, next_[rank]), sizeof(Packet));
  memory.load_fence();
  for (const std::uint32_t rank : looked_) {
    Packet packet;
    memory.load_line(&packet, pool_.base() + region_.submission(rank, next_[rank]));
    if (!offload::has_come(packet, region_.submission_place(rank, next_[rank]))) continue;
    some |= take(rank, packet);
  }
  return some;
}

bool Served::take(std::uint32_t rank, const Packet& packet) {
  auto command = offload::read_command(packet, region_.submission_place(rank, next_[rank]));
  if (command && command->ranks != region_.shape().ranks)
    command = penstock::fail(ErrorCode::wrong_format, "it speaks of {} ranks, and there are {}",
                             command->ranks, region_.shape().ranks);
  if (!command) {
    malformed(rank, command.error());
    return false;
  }
  damaged_[rank] = 0;
  Arrived& arrived = this->arrived(next_[rank]);
  if (arrived.count == 0) arrived.first_ns = base::now_ns();
  arrived.of[rank] = *command;
  ++arrived.count;
  ++next_[rank];
  ++counts_.commands;
  return true;
}

void Served::malformed(std::uint32_t rank, const Error& error) {
  if (failed_ || ++damaged_[rank] < looks_at_damage) return;
  base::log(base::Level::warn, "communicator {:#x}: {}; its ranks go on without the switch",
            region_.shape().communicator, error.message);
  fail(Status::malformed, rank);
}

/// Whom the ranks' packets tell apart from the lowest rank's.
std::optional<Refusal> Served::mismatch_in(const std::vector<Command>& commands) const {
  for (std::uint32_t rank = 1; rank < commands.size(); ++rank)
    if (!same_call(commands.front(), commands[rank])) return Refusal{Status::mismatch, rank};
  return std::nullopt;
}

/// Gather, reduce, broadcast.
void Served::complete() {
  Arrived& all = arrived(done_);
  const std::uint64_t gathered_ns = base::now_ns();
  commands_.clear();
  for (auto& command : all.of) commands_.push_back(*command);
  const Chunk chunk{.commands = &commands_,
                    .result = region_.result(0, done_),
                    .slot_bytes = region_.shape().slot_bytes};
  Refusal refusal = mismatch_in(commands_).value_or(Refusal{});
  if (refusal.status == Status::ok) refusal = combining_.check(chunk);
  if (refusal.status != Status::ok) return fail(refusal.status, refusal.culprit);
  pool_.confirm();  // who was taken for dead stores nothing more
  Completion completion{.operation = commands_.front().operation,
                        .datatype = commands_.front().datatype,
                        .communicator = region_.shape().communicator,
                        .sequence = commands_.front().sequence,
                        .chunk = commands_.front().chunk};
  completion.inlined = combining_.compute(chunk);
  if (completion.inlined.bytes == 0 && completion.operation != Operation::barrier) {
    completion.result = chunk.result;
    completion.elements = commands_[commands_.front().root].elements;
  }
  completion.gather_ns = nanoseconds(all.first_ns, gathered_ns);
  completion.reduce_ns = nanoseconds(gathered_ns, base::now_ns());
  // A rank that finds its packet finds all of the result.
  pool_.memory().store_fence();
  answer(completion);
  for (auto& command : all.of) command.reset();
  all.count = 0;
  ++done_;
  ++counts_.chunks;
}

/// To all ranks, which look for the packet of this chunk.
void Served::answer(const Completion& completion) {
  const auto& memory = pool_.memory();
  Completion own = completion;
  for (std::uint32_t rank = 0; rank < region_.shape().ranks; ++rank) {
    own.rank = static_cast<std::uint16_t>(rank);
    const Packet packet = offload::seal(own, region_.completion_place(rank, done_));
    memory.publish_line(pool_.base() + region_.completion(rank, done_), &packet);
    ++counts_.completions;
  }
  memory.store_fence();
}

/// The ranks take no chunk more from the switch.
void Served::fail(Status status, std::uint32_t culprit) {
  if (failed_) return;
  failed_ = true;
  ++counts_.failures;
  pool_.confirm();
  const auto& of = arrived(done_).of;
  const auto some = std::find_if(of.begin(), of.end(), [](const auto& c) { return c.has_value(); });
  answer({.operation = some == of.end() ? Operation::barrier : (*some)->operation,
          .status = status,
          .communicator = region_.shape().communicator,
          .sequence = some == of.end() ? 0 : (*some)->sequence,
          .culprit = static_cast<std::uint16_t>(culprit)});
}

bool Served::alive(std::uint32_t rank) {
  if (!members_[rank])
    members_[rank] = offload::observe_member(pool_, region_, region_.member_line(rank));
  return !members_[rank] || pool_.alive(members_[rank]->token);
}

/// Only where one of them waits: ranks may end in any order when nothing is outstanding.
void Served::check_ranks() {
  const Arrived& awaited = arrived(done_);
  if (failed_ || awaited.count == 0) return;
  const bool late = missing_after_ns_ != 0 && base::now_ns() - awaited.first_ns > missing_after_ns_;
  for (std::uint32_t rank = 0; rank < region_.shape().ranks; ++rank) {
    if (awaited.of[rank]) continue;
    if (!alive(rank)) {
      // What it had published before it died is at the device by now.
      if (look() && awaited.of[rank]) continue;
      return fail(Status::rank_dead, rank);
    }
    if (late) return fail(Status::rank_missing, rank);
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

}  // namespace penstock::accelerator
