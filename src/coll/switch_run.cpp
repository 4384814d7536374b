#include "coll/switch_run.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::coll {

namespace {

using offload::Command;
using offload::Completion;
using Offloaded = offload::Operation;
using offload::Packet;
using offload::Status;

constexpr std::uint64_t look_interval_ns = 20'000'000;

std::uint64_t stride(std::uint64_t part_bytes) {
  return base::align_up(part_bytes, line_bytes);
}

}  // namespace

SwitchRun::SwitchRun(State& state, std::optional<offload::Region> region)
    : Running(state), region_(std::move(region)) {
  if (!region_) return;
  const std::uint32_t leaves = region_->shape().leaves;
  if (leaves != 0) leaf_ = s_.group.pool.node() % leaves;  // hosts hang on the leaves in turn
  offload::publish_member(s_.group.pool, *region_, region_->member_line(s_.self()),
                          {.token = s_.group.token(s_.self()), .leaf = leaf_});
  s_.group.memory.store_fence();
  find_switches();
  s_.group.waits_for_itself_as([this] { return name_of_switches(); });
  sent_.resize(region_->shape().window);
}

/// Empty where what one of them has said of itself is damaged.
void SwitchRun::find_switches() {
  for (std::uint32_t number = 0; number <= region_->shape().leaves; ++number) {
    const auto member =
        offload::observe_member(s_.group.pool, *region_, region_->switch_line(number));
    if (!member) return switches_.clear();
    switches_.push_back(member->token);
  }
}

std::string SwitchRun::name_of_switches() const {
  if (switches_.empty()) return "the switch";
  const auto name = [this](std::uint32_t number) {
    return s_.group.pool.describe(switches_[number]);
  };
  if (switches_.size() == 1) return "the switch, " + name(0);
  return fmt::format("its leaf switch, {}, or the spine, {}", name(1 + leaf_), name(0));
}

std::optional<std::uint64_t> SwitchRun::dead_switch() const {
  for (const std::uint64_t token : switches_)
    if (!s_.group.pool.alive(token)) return token;
  return std::nullopt;
}

bool SwitchRun::takes(const Call& call, const Prepared& prepared) const {
  if (!region_ || all_left_ || !prepared.plan.in_switch || call.mover != nullptr) return false;
  const Reduction* const reduction =
      call.arithmetic == nullptr ? nullptr : call.arithmetic->predefined();
  return switch_plan_of(prepared.problem, reduction, region_->shape()).has_value();
}

void SwitchRun::begin(const Call& call, const Prepared& prepared) {
  Running::begin(call, prepared);
  const Reduction* const reduction =
      call.arithmetic == nullptr ? nullptr : call.arithmetic->predefined();
  plan_ = *switch_plan_of(prepared.problem, reduction, region_->shape());
  base_ = next_base_;
  next_base_ = base_ + plan_.chunks;
  submitted_ = taken_ = cut_ = 0;
  next_look_ns_ = 0;
  stage_ = left_ == 0 ? Stage::served : Stage::leaving;
}

std::uint64_t SwitchRun::done_bytes() const {
  return std::min(plan_.block_bytes, taken_ * plan_.part_bytes);
}

Result<SwitchWay> SwitchRun::advance(Missing& missing) {
  if (stage_ == Stage::served) {
    if (PENSTOCK_TRY(serve(missing))) return SwitchWay::done;
    if (stage_ == Stage::served) return SwitchWay::waits;
  }
  if (stage_ == Stage::leaving) {
    if (!agreed(missing)) return SwitchWay::waits;
    stage_ = Stage::taking;
  }
  PENSTOCK_TRY(take_the_rest());
  if (taken_ < plan_.chunks) return SwitchWay::plain;
  finish();
  return SwitchWay::done;
}

/// The others know by this word that nothing of the call is needed from them, and that they need
/// nothing of this rank.
void SwitchRun::finish() {
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) s_.hear(rank, s_.number);
  s_.finish_in_switch();
}

// ---- with the switch ----------------------------------------------------------------------------

/// True when all chunks are done.
Result<bool> SwitchRun::serve(Missing& missing) {
  if (switches_.empty()) {
    leave("what it has said of itself is damaged");
    return false;
  }
  submit_more();
  while (stage_ == Stage::served && taken_ < plan_.chunks && PENSTOCK_TRY(take_next()))
    submit_more();
  if (taken_ == plan_.chunks) {
    finish();
    return true;
  }
  if (stage_ == Stage::served) PENSTOCK_TRY(look_around(missing));
  if (taken_ < plan_.chunks) return false;
  finish();
  return true;
}

/// As many as may be on their way: a packet says that this rank has taken the result of the one
/// that had its slot before.
void SwitchRun::submit_more() {
  const std::uint64_t end = std::min(plan_.chunks, taken_ + region_->shape().window);
  while (submitted_ < end) submit(submitted_++);
}

void SwitchRun::publish_operand(std::uint64_t chunk, std::uint64_t source) {
  const Problem& problem = prepared().problem;
  const Block part = plan_.part(chunk);
  for (std::uint32_t segment = 0; segment < plan_.segments; ++segment) {
    const Block& block = problem.input[segment];
    s_.group.memory.publish_bulk(s_.group.pool.base() + source + segment * stride(part.bytes),
                                 from({Buffer::input, block.offset + part.offset, part.bytes}),
                                 part.bytes);
  }
  s_.group.memory.store_fence();  // the operand first, then its packet
}

void SwitchRun::submit(std::uint64_t chunk) {
  const std::uint64_t index = index_of(chunk);
  const Problem& problem = prepared().problem;
  const bool has_operand = plan_.operation != Offloaded::barrier && !problem.input.empty();
  Command command{.operation = plan_.operation,
                  .reduction = plan_.reduction,
                  .datatype = plan_.datatype,
                  .communicator = region_->shape().communicator,
                  .sequence = static_cast<std::uint32_t>(s_.number),
                  .rank = static_cast<std::uint16_t>(s_.self()),
                  .ranks = static_cast<std::uint16_t>(s_.group.ranks()),
                  .root = static_cast<std::uint16_t>(problem.root),
                  .last_chunk = chunk + 1 == plan_.chunks,
                  .chunk = static_cast<std::uint32_t>(chunk)};
  if (has_operand && plan_.inlined) {
    command.operand.bytes = static_cast<std::uint8_t>(plan_.block_bytes);
    std::memcpy(command.operand.data.data(),
                from({Buffer::input, problem.input[0].offset, plan_.block_bytes}),
                plan_.block_bytes);
  } else if (has_operand) {
    command.source = region_->source(s_.self(), index);
    command.elements = plan_.part(chunk).bytes / plan_.element_bytes;
    publish_operand(chunk, command.source);
  }
  Packet& packet = sent_[index % sent_.size()];
  packet = offload::seal(command, region_->submission_place(s_.self(), index));
  s_.group.memory.publish_line(s_.group.pool.base() + region_->submission(s_.self(), index),
                               &packet);
  s_.group.memory.store_fence();
}

std::optional<Packet> SwitchRun::packet_at(std::uint32_t rank, std::uint64_t chunk) const {
  const std::uint64_t index = index_of(chunk);
  Packet packet;
  s_.group.memory.observe_line(&packet, s_.group.pool.base() + region_->completion(rank, index));
  if (!offload::has_come(packet, region_->completion_place(rank, index))) return std::nullopt;
  return packet;
}

Result<bool> SwitchRun::take_next() {
  const auto packet = packet_at(s_.self(), taken_);
  if (!packet) return false;
  const std::uint64_t before = taken_;
  PENSTOCK_TRY(take(s_.self(), *packet));
  return taken_ != before;
}

/// Whether the result is one of this call, and in its place.
bool SwitchRun::fits(const Completion& completion) const {
  const Block part = plan_.part(taken_);
  if (completion.operation != plan_.operation || completion.chunk != taken_ ||
      completion.sequence != static_cast<std::uint32_t>(s_.number))
    return false;
  if (plan_.operation == Offloaded::barrier) return true;
  if (plan_.inlined) return completion.inlined.bytes == plan_.block_bytes;
  return completion.inlined.bytes == 0 && is_result(completion.result) &&
         completion.elements == part.bytes / plan_.element_bytes;
}

/// Of the awaited chunk: where the switch, or any leaf, puts it.
bool SwitchRun::is_result(std::uint64_t offset) const {
  const std::uint32_t leaves = region_->shape().leaves;
  for (std::uint32_t number = leaves == 0 ? 0 : 1; number <= leaves; ++number)
    if (offset == region_->result(number, index_of(taken_))) return true;
  return false;
}

Result<void> SwitchRun::take(std::uint32_t ring, const Packet& packet) {
  const auto completion =
      offload::read_completion(packet, region_->completion_place(ring, index_of(taken_)));
  if (!completion) {
    leave(completion.error().message);
    return {};
  }
  if (completion->status != Status::ok) return refused(*completion);
  if (!fits(*completion)) {
    leave(fmt::format("its answer {} is not to this call", index_of(taken_)));
    return {};
  }
  if (plan_.operation != Offloaded::barrier) take_result(*completion);
  ++taken_;
  return {};
}

void SwitchRun::take_result(const Completion& completion) {
  const Problem& problem = prepared().problem;
  const Block part = plan_.part(taken_);
  const auto& memory = s_.group.memory;
  const std::byte* const result = s_.group.pool.base() + completion.result;
  const auto take_segment = [&](std::uint64_t segment, const Block& block) {
    memory.load_bulk(to({Buffer::output, block.offset + part.offset, part.bytes}),
                     result + segment * stride(part.bytes), part.bytes);
  };
  if (problem.output.empty()) return;
  if (plan_.inlined) {
    std::memcpy(to({Buffer::output, problem.output[0].offset, part.bytes}),
                completion.inlined.data.data(), part.bytes);
    return;
  }
  memory.invalidate(result, plan_.result_segments * stride(part.bytes));
  memory.load_fence();
  if (plan_.operation == Offloaded::reduce_scatter)
    return take_segment(s_.self(), problem.output[0]);
  if (plan_.operation != Offloaded::all_gather) return take_segment(0, problem.output[0]);
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank)
    take_segment(rank, problem.output[rank]);
}

Result<void> SwitchRun::refused(const Completion& completion) {
  const std::uint32_t culprit = completion.culprit;
  const bool named = culprit < s_.group.ranks();
  if (completion.status == Status::mismatch && named)
    return fail(ErrorCode::mismatch,
                "{}: the switch says that the call of {} is another than that of rank 0; "
                "PENSTOCK_COLL_CHECK=1 compares the calls of all ranks",
                call().name, s_.group.name(culprit));
  if (completion.status == Status::rank_dead && named)
    PENSTOCK_TRY(s_.group.check_alive_now(culprit, call().name));
  leave(fmt::format("it says of {}: {}", named ? s_.group.name(culprit) : "a rank",
                    offload::name_of(completion.status)));
  return {};
}

// ---- while it does not answer -------------------------------------------------------------------

Result<void> SwitchRun::look_around(Missing& missing) {
  const std::uint64_t now = base::now_ns();
  if (next_look_ns_ == 0) missing = {s_.self()};
  if (next_look_ns_ == 0) next_look_ns_ = now + look_interval_ns;
  if (now < next_look_ns_) return {};
  next_look_ns_ = now + look_interval_ns;
  if (PENSTOCK_TRY(take_from_anothers_ring())) return {};
  if (stage_ != Stage::served) return {};
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) {
    if (rank == s_.self() || left_word(rank) == 0) continue;
    leave(fmt::format("{} goes on without it", s_.group.name(rank)));
    return {};
  }
  if (const auto dead = dead_switch()) {
    // What it had published before it died is at the device by now.
    if (!PENSTOCK_TRY(take_next()) && stage_ == Stage::served)
      leave(s_.group.pool.describe(*dead) + " has died or ended");
    return {};
  }
  restore_packets();
  find_missing(missing);
  return {};
}

/// A packet of ours that a stranger has overwritten: the others have theirs, which say the same.
Result<bool> SwitchRun::take_from_anothers_ring() {
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) {
    const auto packet = packet_at(rank, taken_);
    if (!packet) continue;
    const std::uint64_t before = taken_;
    PENSTOCK_TRY(take(rank, *packet));
    if (taken_ != before || stage_ != Stage::served) return true;
  }
  return false;
}

/// Those of this rank that are on their way.
void SwitchRun::restore_packets() {
  const auto& memory = s_.group.memory;
  for (std::uint64_t chunk = taken_; chunk < submitted_; ++chunk) {
    const std::uint64_t index = index_of(chunk);
    std::byte* const at = s_.group.pool.base() + region_->submission(s_.self(), index);
    Packet found;
    memory.observe_line(&found, at);
    if (found.bytes == sent_[index % sent_.size()].bytes) continue;
    memory.publish_line(at, &sent_[index % sent_.size()]);
    memory.store_fence();
  }
}

void SwitchRun::find_missing(Missing& missing) const {
  const auto& memory = s_.group.memory;
  missing.clear();
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) {
    if (rank == s_.self()) continue;
    const std::uint64_t index = index_of(taken_);
    Packet packet;
    memory.observe_line(&packet, s_.group.pool.base() + region_->submission(rank, index));
    if (!offload::has_come(packet, region_->submission_place(rank, index))) missing.push_back(rank);
  }
  if (missing.empty()) missing.push_back(s_.self());
}

// ---- without it ---------------------------------------------------------------------------------

void SwitchRun::publish_left() {
  s_.group.memory.publish_word(s_.at(s_.layout.left_switch(s_.self())), left_);
}

/// For good. From here on this rank takes no result of the switch but by agreement.
void SwitchRun::leave(const std::string& why) {
  left_ = chunk_word(s_.number, taken_) | 1;
  stage_ = Stage::leaving;
  publish_left();
  s_.group.memory.full_fence();
  base::log(base::Level::warn,
            "{}: goes on without the switch: {}. This and all later collectives of this "
            "communicator go through the plain pool",
            call().name, why);
}

std::uint64_t SwitchRun::left_word(std::uint32_t rank) const {
  return s_.group.memory.observe_word(s_.at(s_.layout.left_switch(rank)));
}

/// Whether all have said how far they came with the switch: at a chunk of this call or before it,
/// or to the end of it. Then `cut_` is the same on all ranks. `missing`: who has not.
bool SwitchRun::agreed(Missing& missing) {
  const std::uint32_t ranks = s_.group.ranks();
  publish_left();  // a stranger may have overwritten it
  s_.send_off();
  const auto& memory = s_.group.memory;
  memory.store_fence();
  finished_.assign(ranks, 0);
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    memory.invalidate(s_.at(s_.layout.finished(rank)), 8);
  memory.load_fence();
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    finished_[rank] = memory.load_word(s_.at(s_.layout.finished(rank)));
  // Who finished this call without the switch had said before that it has left.
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    memory.invalidate(s_.at(s_.layout.left_switch(rank)), 8);
  memory.load_fence();
  missing.clear();
  cut_ = taken_;
  bool all_left = true;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t left =
        rank == s_.self() ? left_ : memory.load_word(s_.at(s_.layout.left_switch(rank)));
    if (left != 0 && collective_of(left) <= s_.number) {
      if (collective_of(left) == s_.number) cut_ = std::max(cut_, chunks_of(left));
      continue;
    }
    all_left = false;
    if (finished_[rank] >= s_.number) cut_ = plan_.chunks;
    if (finished_[rank] < s_.number) missing.push_back(rank);
  }
  if (!missing.empty()) return false;
  cut_ = std::min(cut_, plan_.chunks);
  all_left_ = all_left;
  return true;
}

/// The chunks that somebody has taken of the switch: their results are whole, and stay until this
/// rank has said that it has them, which it never does.
Result<void> SwitchRun::take_the_rest() {
  while (taken_ < cut_) {
    const std::uint64_t before = taken_;
    for (std::uint32_t rank = 0; rank < s_.group.ranks() && taken_ == before; ++rank) {
      const auto packet = packet_at(rank, taken_);
      if (!packet) continue;
      const auto completion =
          offload::read_completion(*packet, region_->completion_place(rank, index_of(taken_)));
      if (!completion || completion->status != Status::ok || !fits(*completion)) continue;
      if (plan_.operation != Offloaded::barrier) take_result(*completion);
      ++taken_;
    }
    if (taken_ == before)
      return fail(ErrorCode::wrong_format,
                  "{}: another rank has a result of the switch for chunk {}, and no packet in the "
                  "pool tells where it is: it was overwritten",
                  call().name, taken_);
  }
  return {};
}

}  // namespace penstock::coll
