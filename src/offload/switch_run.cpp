#include "offload/switch_run.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"
#include "coll/mover.hpp"

namespace penstock::coll {

namespace {

using offload::Command;
using offload::Completion;
using Offloaded = offload::Operation;
using offload::Packet;
using offload::Status;

constexpr std::uint64_t look_interval_ns = 20'000'000;

}  // namespace

SwitchRun::SwitchRun(State& state, const offload::Region& region, bool inlines)
    : SwitchExecutor(state), region_(region), inlines_(inlines) {
  // Hosts are dealt to the leaves in turn.
  const std::uint32_t leaves = region_.shape().leaves;
  own_switch_ = leaves == 0 ? 0 : 1 + s_.group.pool.node() % leaves;
  publish_member();
  find_switches();
  sent_.resize(region_.shape().window);
}

void SwitchRun::publish_member() const {
  offload::publish_member(
      s_.group.pool, region_, region_.member_line(s_.self()),
      {.token = s_.group.token(s_.self()), .leaf = own_switch_ == 0 ? 0 : own_switch_ - 1});
  s_.group.memory.store_fence();
}

/// Leaves `switches_` empty if the member line of any of them is corrupted.
void SwitchRun::find_switches() {
  for (std::uint32_t number = 0; number <= region_.shape().leaves; ++number) {
    const auto member =
        offload::observe_member(s_.group.pool, region_, region_.switch_line(number));
    if (!member) return switches_.clear();
    switches_.push_back(member->token);
  }
}

/// The reason why one of the switches no longer computes here; nullopt: all do.
std::optional<std::string> SwitchRun::why_gone() const {
  const pool::Pool& pool = s_.group.pool;
  for (std::uint32_t number = 0; number < switches_.size(); ++number) {
    const std::uint64_t token = switches_[number];
    if (!pool.alive(token)) return pool.describe(token) + " has died or ended";
    const auto member = offload::observe_member(pool, region_, region_.switch_line(number));
    if (!member || member->token != token) return pool.describe(token) + " has let go of it";
  }
  return std::nullopt;
}

std::optional<SwitchPlan> SwitchRun::plan_of(const Call& call, const Problem& problem) const {
  const Reduction* const reduction =
      call.arithmetic == nullptr ? nullptr : call.arithmetic->predefined();
  return switch_plan_of(problem, reduction, region_.shape());
}

bool SwitchRun::takes(const Call& call, const Prepared& prepared) const {
  if (call.mover != nullptr) return prepared.switch_packets != 0;
  if (all_left_ || !prepared.plan.in_switch) return false;
  return plan_of(call, prepared.problem).has_value();
}

void SwitchRun::begin(const Call& call, const Prepared& prepared) {
  Executor::begin(call, prepared);
  plan_ = *plan_of(call, prepared.problem);
  // The thread that writes packets does not see the data that a Mover moves.
  plan_.inlined = plan_.inlined && inlines_ && call.mover == nullptr;
  base_ = next_base_;
  next_base_ = base_ + plan_.chunks;
  submitted_ = taken_ = cut_ = 0;
  next_look_ns_ = 0;
  unanswered_looks_ = 0;
  moving_ = false;
  stage_ = left_ == 0 ? Stage::served : Stage::leaving;
}

std::uint64_t SwitchRun::done_bytes() const {
  return std::min(plan_.block_bytes, taken_ * plan_.part_bytes);
}

Result<bool> SwitchRun::advance(Missing& missing) {
  if (stage_ == Stage::served) {
    if (PENSTOCK_TRY(serve(missing))) return true;
    if (stage_ == Stage::served) return false;
  }
  if (stage_ == Stage::leaving) {
    if (!agreed(missing)) return false;
    stage_ = is_moved() ? Stage::fetching : Stage::taking;
  }
  if (stage_ != Stage::taking && !PENSTOCK_TRY(hand_over_to_host(missing))) return false;
  if (!PENSTOCK_TRY(take_the_rest(missing))) return false;
  if (taken_ < plan_.chunks) {
    stage_ = Stage::stopped;
    return false;
  }
  finish();
  return true;
}

/// This word tells the others that the call needs nothing more from them, and that this rank needs
/// nothing more from them either.
void SwitchRun::finish() {
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) s_.note_entered(rank, s_.number);
  s_.finish_in_switch();
}

// ---- with the switch

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

/// Submits as many chunks as may be in flight. A packet shows that this rank has read the result of
/// the packet that had its slot before.
void SwitchRun::submit_more() {
  const std::uint64_t end = std::min(plan_.chunks, taken_ + region_.shape().window);
  if (is_moved() && submitted_ < end) call().mover->allow(Lane::write, end - 1);
  while (submitted_ < end && is_operand_there(submitted_)) submit(submitted_++);
}

void SwitchRun::publish_operand(std::uint64_t chunk, std::uint64_t source) {
  const Problem& problem = prepared().problem;
  const Block part = plan_.part(chunk);
  for (std::uint32_t segment = 0; segment < plan_.segments; ++segment) {
    const Block& block = problem.input[segment];
    s_.group.memory.publish_bulk(
        s_.group.pool.base() + source + segment * SwitchPlan::stride(part.bytes),
        from({Buffer::input, block.offset + part.offset, part.bytes}), part.bytes);
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
                  .communicator = region_.shape().communicator,
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
    command.source = region_.source(s_.self(), index);
    command.elements = plan_.part(chunk).bytes / plan_.element_bytes;
    is_moved() ? send_operand(chunk) : publish_operand(chunk, command.source);
  }
  Packet& packet = sent_[index % sent_.size()];
  packet = offload::seal(command, region_.submission_place(s_.self(), index));
  s_.group.memory.publish_line(s_.group.pool.base() + region_.submission(s_.self(), index),
                               &packet);
  s_.group.memory.store_fence();
}

std::optional<Packet> SwitchRun::packet_at(std::uint32_t rank, std::uint64_t chunk) const {
  const std::uint64_t index = index_of(chunk);
  Packet packet;
  s_.group.memory.observe_line(&packet, s_.group.pool.base() + region_.completion(rank, index));
  if (!offload::has_arrived(packet, region_.completion_place(rank, index))) return std::nullopt;
  return packet;
}

Result<bool> SwitchRun::take_next() {
  if (moving_) return has_moved();
  const auto packet = packet_at(s_.self(), taken_);
  if (!packet) return false;
  const std::uint64_t before = taken_;
  PENSTOCK_TRY(take(s_.self(), *packet));
  return taken_ != before || moving_;
}

/// Whether the result belongs to this call, and is in its place.
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

/// For a broadcast only the root knows the size, and the switch does not compare it.
Result<void> SwitchRun::check_size(const Completion& completion) const {
  const bool is_this_call = completion.operation == plan_.operation && completion.chunk == taken_ &&
                            completion.sequence == static_cast<std::uint32_t>(s_.number);
  if (!is_this_call || plan_.operation != Offloaded::broadcast) return {};
  const std::uint64_t bytes =
      completion.inlined.bytes != 0 ? completion.inlined.bytes : completion.elements;
  if (bytes == plan_.part(taken_).bytes) return {};
  return fail(
      ErrorCode::mismatch,
      "{}: {} and this rank disagree about how much is sent; PENSTOCK_COLL_CHECK=1 compares "
      "the calls of all ranks",
      call().name, s_.group.name(prepared().problem.root));
}

/// Whether the switch or a leaf puts the result of the awaited chunk there.
bool SwitchRun::is_result(std::uint64_t offset) const {
  const std::uint32_t leaves = region_.shape().leaves;
  // The stream's copy was set up before there was a result, so only one place is possible.
  if (is_moved()) return offset == region_.result(own_switch_, index_of(taken_));
  for (std::uint32_t number = leaves == 0 ? 0 : 1; number <= leaves; ++number)
    if (offset == region_.result(number, index_of(taken_))) return true;
  return false;
}

Result<void> SwitchRun::take(std::uint32_t ring, const Packet& packet) {
  s_.group.set_stand_in(0);
  const auto completion =
      offload::read_completion(packet, region_.completion_place(ring, index_of(taken_)));
  if (!completion) {
    leave(completion.error().message);
    return {};
  }
  if (completion->status != Status::ok) return refused(*completion);
  PENSTOCK_TRY(check_size(*completion));
  if (!fits(*completion)) {
    leave(fmt::format("its answer {} is not to this call", index_of(taken_)));
    return {};
  }
  unanswered_looks_ = 0;
  if (is_moved()) {
    let_take(*completion);
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
                     result + segment * SwitchPlan::stride(part.bytes), part.bytes);
  };
  if (problem.output.empty()) return;
  if (plan_.inlined) {
    std::memcpy(to({Buffer::output, problem.output[0].offset, part.bytes}),
                completion.inlined.data.data(), part.bytes);
    return;
  }
  memory.invalidate(result, plan_.result_segments * SwitchPlan::stride(part.bytes));
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

// ---- while the switch does not answer

Result<void> SwitchRun::look_around(Missing& missing) {
  const std::uint64_t now = base::now_ns();
  if (next_look_ns_ == 0 || moving_) missing = {s_.self()};
  if (moving_) return {};
  if (next_look_ns_ == 0) next_look_ns_ = now + look_interval_ns;
  if (now < next_look_ns_) return {};
  next_look_ns_ = now + look_interval_ns;
  if (PENSTOCK_TRY(take_from_other_rings())) return {};
  if (stage_ != Stage::served) return {};
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) {
    if (rank == s_.self() || left_word(rank) == 0) continue;
    leave(fmt::format("{} goes on without it", s_.group.name(rank)));
    return {};
  }
  if (const auto gone = why_gone()) {
    // Its publishes before its death have reached the device by now.
    if (!PENSTOCK_TRY(take_next()) && stage_ == Stage::served) leave(*gone);
    return {};
  }
  restore_packets();
  find_missing(missing);
  // If nothing is sent, this rank waits for its own Mover.
  const bool is_sent = submitted_ > taken_;
  s_.group.set_stand_in(is_sent ? awaited_switch() : 0, "the switch");
  if (is_sent && missing.front() == s_.self()) leave_if_unanswered();
  return {};
}

/// Leaves the switch if all ranks have sent the awaited chunk and it does not answer. Looks are
/// counted instead of time, because time in which this process was stopped must not count.
void SwitchRun::leave_if_unanswered() {
  if (++unanswered_looks_ * look_interval_ns < base::default_timeout_ns()) return;
  leave(fmt::format("{} has not answered in {} ms; to wait longer: export PENSTOCK_TIMEOUT_MS={}",
                    s_.group.name(s_.self()), base::default_timeout_ns() / 1'000'000,
                    base::default_timeout_ns() / 100'000));
}

/// The switch whose answer is awaited: this rank's leaf, until it has asked the spine.
std::uint64_t SwitchRun::awaited_switch() const {
  if (own_switch_ == 0) return switches_.front();
  const std::uint32_t ring = s_.group.ranks() + own_switch_ - 1;
  Packet packet;
  s_.group.memory.observe_line(&packet,
                               s_.group.pool.base() + region_.submission(ring, index_of(taken_)));
  const bool asked = offload::has_arrived(packet, region_.submission_place(ring, index_of(taken_)));
  return switches_[asked ? 0 : own_switch_];
}

/// Foreign stores may have overwritten this rank's packet. The other ranks' packets say the same.
Result<bool> SwitchRun::take_from_other_rings() {
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) {
    const auto packet = packet_at(rank, taken_);
    if (!packet || (is_moved() && !is_for_us(rank, *packet))) continue;
    const std::uint64_t before = taken_;
    PENSTOCK_TRY(take(rank, *packet));
    if (taken_ != before || moving_ || stage_ != Stage::served) return true;
  }
  return false;
}

/// Restores this rank's packets in flight, and its member line.
void SwitchRun::restore_packets() {
  const auto& memory = s_.group.memory;
  if (!offload::observe_member(s_.group.pool, region_, region_.member_line(s_.self())))
    publish_member();
  for (std::uint64_t chunk = taken_; chunk < submitted_; ++chunk) {
    const std::uint64_t index = index_of(chunk);
    std::byte* const at = s_.group.pool.base() + region_.submission(s_.self(), index);
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
    memory.observe_line(&packet, s_.group.pool.base() + region_.submission(rank, index));
    if (!offload::has_arrived(packet, region_.submission_place(rank, index)))
      missing.push_back(rank);
  }
  if (missing.empty()) missing.push_back(s_.self());
}

// ---- without the switch

/// Leaves the switch for good. From now on this rank takes results of the switch only by agreement,
/// for which it publishes how far it came.
void SwitchRun::leave(const std::string& why) {
  s_.group.set_stand_in(0);
  left_ = chunk_word(s_.number, taken_) | 1;
  stage_ = Stage::leaving;
  base::log(base::Level::warn,
            "{}: goes on without the switch: {}. This and all later collectives of this "
            "communicator go through the plain pool",
            call().name, why);
}

std::uint64_t SwitchRun::left_word(std::uint32_t rank) const {
  return s_.group.memory.observe_word(s_.at(s_.layout.left_switch(rank)));
}

/// Whether all ranks have published how far they came with the switch: up to a chunk of this call
/// or an earlier one, or to the end of this call. Then `cut_` is the same on all ranks. `missing`:
/// ranks that have not published it.
bool SwitchRun::agreed(Missing& missing) {
  const std::uint32_t ranks = s_.group.ranks();
  const std::vector<std::uint32_t> others = s_.group.others();
  const auto& memory = s_.group.memory;
  // Publish it at each look, because foreign stores may have overwritten it.
  memory.publish_word(s_.at(s_.layout.left_switch(s_.self())), left_);
  s_.published();
  s_.send_off();
  finished_.assign(ranks, 0);
  for (const std::uint32_t rank : others)
    memory.invalidate(s_.at(s_.layout.finished(rank)), 8);  // the fence below is for the next look
  for (const std::uint32_t rank : others)
    finished_[rank] = memory.load_word(s_.at(s_.layout.finished(rank)));
  // A rank that finished this call without the switch has published before that it has left.
  for (const std::uint32_t rank : others) memory.invalidate(s_.at(s_.layout.left_switch(rank)), 8);
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

/// Takes the chunks that any rank has taken from the switch. Their results are complete, and stay
/// until this rank acknowledges them, which it never does. If the packet that another rank took was
/// overwritten since, a switch that lives still answers in this rank's own ring.
Result<bool> SwitchRun::take_the_rest(Missing& missing) {
  while (taken_ < cut_) {
    const bool may_answer = may_still_answer();
    const std::uint64_t before = taken_;
    for (std::uint32_t rank = 0; rank < s_.group.ranks() && taken_ == before; ++rank) {
      const auto packet = packet_at(rank, taken_);
      if (!packet) continue;
      const auto completion =
          offload::read_completion(*packet, region_.completion_place(rank, index_of(taken_)));
      if (!completion || completion->status != Status::ok || !fits(*completion)) continue;
      if (plan_.operation != Offloaded::barrier) take_result(*completion);
      ++taken_;
    }
    if (taken_ != before) continue;
    missing = {s_.self()};
    if (may_answer) return false;
    return fail(ErrorCode::wrong_format,
                "{}: another rank has a result of the switch for chunk {}, and no packet in the "
                "pool tells where it is: it was overwritten",
                call().name, taken_);
  }
  return true;
}

/// False once the switch is gone, or has had its time. Looks are counted, as in
/// leave_if_unanswered().
bool SwitchRun::may_still_answer() {
  const std::uint64_t now = base::now_ns();
  if (now < next_look_ns_) return true;
  next_look_ns_ = now + look_interval_ns;
  return ++unanswered_looks_ * look_interval_ns < base::default_timeout_ns() && !why_gone();
}

}  // namespace penstock::coll
