// Plans of collectives that GPUs do by themselves, on memory that neither caches nor orders their
// stores: each rank has two streams, out of step, or launches, and a host that only watches. Hosts
// make calls in between, or do not watch at all, and a rank may die or give up.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "coll/flagged_program.hpp"
#include "coll/test_streams.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/fused_stream.hpp"

namespace penstock::sim::direct_calls {

using coll::Collective;
using coll::Communicator;
using coll::TestStreams;

inline constexpr std::uint32_t nodes = 3;

struct Plan : Meeting {
  using Meeting::Meeting;
  std::vector<coll::TestCall> calls;
  std::vector<coll::Plan> plans;
  std::vector<bool> by_hosts;
  bool watched = true;  ///< false: no host ever looks
  /// By rank: whether its calls are one launch each, and whether the launches count themselves.
  enum class Form : std::uint8_t { streams, launches, counting };
  std::vector<Form> forms;
  /// A rank that gives up at one of its calls, and releases its GPU with any data it has: nothing
  /// if it has waited for that before. After the last call no other rank needs it.
  std::uint32_t gives_up = ~0u;
  std::size_t gives_up_at = 0;
  bool gives_up_idle = false;
  std::uint64_t between_looks_ns = 20'000'000;
  /// Before this call, the count of flagged calls of all ranks grows by as many: an even number.
  struct Skip {
    std::size_t before = 0;
    std::uint64_t calls = 0;
  };
  std::vector<Skip> skips;
};

class Rank : PlanRank<Plan> {
 public:
  using PlanRank::PlanRank;

  void call_all() {
    if (!await_all_ranks()) return;
    comm_ = plan_.open(world_, *pool_, self_);
    const auto pause = [this] { world_.yield(); };
    bool done = false;
    if (plan_.forms[self_] == Plan::Form::streams) {
      TestStreams streams(*comm_, pool_->memory(), pool_->base() + plan_.area, pause);
      done = call_all_by(streams);
    } else {
      FusedStream stream(*comm_, *pool_, plan_.area,
                         plan_.forms[self_] == Plan::Form::counting ? &number_ : nullptr, pause);
      done = call_all_by(stream);
    }
    if (!done) return;
    comm_->leave();
    if (self_ != 0) return;
    const auto all = comm_->await_all_left("the end");
    if (!all) died(all.error());
    if (all)
      expect_it_stays(world_, *pool_, plan_.area, static_cast<std::uint32_t>(plan_.tokens.size()),
                      plan_.shape);
  }

 private:
  template <class Streams>
  bool call_all_by(Streams& streams) {
    comm_->direct().count_in(&number_, streams.done());
    const bool done = call_all(streams);
    while (!streams.is_drained()) {
      if (!done) streams.stop();
      if (!done) comm_->direct().release_gpu();
      world_.sleep(10'000);
    }
    return done;
  }

  /// A call of a GPU that was enqueued.
  struct Enqueued {
    std::size_t number = 0;
    std::vector<coll::Made> made;
    std::vector<std::byte> in, out;
    bool in_place() const { return made.front().problem.in_place; }
  };

  std::unique_ptr<Enqueued> make_call(std::size_t number) const {
    auto made = std::make_unique<Enqueued>();
    made->number = number;
    made->made = coll::make_all(plan_.calls[number]);
    made->in = made->made[self_].input;
    made->out = made->made[self_].output;
    return made;
  }
  std::byte* result_of(Enqueued& call) const {
    return call.made[self_].problem.in_place ? call.in.data() : call.out.data();
  }
  bool is_right(const Enqueued& call) {
    const coll::TestCall& w = plan_.calls[call.number];
    const bool in_place = call.made[self_].problem.in_place;
    const auto wrong = check_result(w, call.made, self_, in_place ? call.in : call.out);
    world_.require(wrong.empty(),
                   fmt::format("call {}, {}: {}", call.number, name_of(w.collective), wrong));
    return true;
  }

  template <class Streams>
  bool call_all(Streams& streams) {
    // The streams write to these until they have ended.
    for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
      if (self_ == plan_.gives_up && i == plan_.gives_up_at) return gives_up(streams);
      if (!skip_calls(streams, i)) return false;
      calls_.push_back(make_call(i));
      Enqueued& call = *calls_.back();
      const coll::Problem& problem = call.made[self_].problem;
      const coll::WordArithmetic arithmetic;
      const coll::Call core{.name = name_of(plan_.calls[i].collective),
                            .problem = &problem,
                            .plan = plan_.plans[i],
                            .input = call.in.data(),
                            .output = result_of(call),
                            .arithmetic = &arithmetic};
      if (plan_.by_hosts[i]) {
        if (!all_done(streams)) return false;
        const auto done = comm_->run(core);
        if (!done) return died(done.error());
        is_right(call);
        continue;
      }
      const auto prepared = comm_->prepare_direct(core);
      world_.require(prepared.has_value(), "a plan that cannot be");
      streams.enqueue(comm_->direct(), *prepared, call.in.data(), result_of(call));
      pending_.push_back(&call);
    }
    return self_ == plan_.gives_up ? gives_up(streams) : all_done(streams);
  }

  template <class Streams>
  bool skip_calls(Streams& streams, std::size_t number) {
    if constexpr (std::is_same_v<Streams, FusedStream>) {
      for (const Plan::Skip& skip : plan_.skips) {
        if (skip.before != number) continue;
        if (!all_done(streams)) return false;
        streams.skip_flagged_calls(skip.calls);
      }
    }
    return true;
  }

  /// The watchdog's work, and then that of the program, which has waited for its streams.
  template <class Streams>
  bool all_done(const Streams& streams) {
    std::vector<std::uint32_t> missing;
    while (streams.in_progress() != nullptr) {
      world_.sleep(plan_.between_looks_ns);
      if (!plan_.watched || streams.in_progress() == nullptr) continue;
      const auto looked = streams.look(comm_->direct(), missing);
      if (!looked) return fails(looked.error());
    }
    while (!streams.is_drained()) world_.sleep(10'000);
    const auto looked = comm_->direct().look_for_failures("the calls");
    if (!looked) return fails(looked.error());
    for (const Enqueued* const call : pending_) is_right(*call);
    pending_.clear();
    return true;
  }
  /// As a watchdog that hears of an abort while the program waits for its streams.
  template <class Streams>
  bool gives_up(const Streams& streams) {
    if (plan_.gives_up_idle && plan_.forms[self_] == Plan::Form::counting && !all_done(streams))
      return false;
    while (plan_.gives_up_idle && !streams.are_done() && plan_.forms[self_] != Plan::Form::counting)
      world_.yield();
    if (world_.random() % 2 == 0) world_.sleep(world_.random() % (4 * plan_.between_looks_ns));
    comm_->give_up({ErrorCode::unavailable, "aborted"}, streams.are_done());
    return plan_.gives_up_at == plan_.calls.size() && all_done(streams);
  }
  bool fails(const Error& error) {
    comm_->give_up(error, false);
    return died(error);
  }
  bool died(const Error& error) {
    // A rank that has given up ends, and may be found gone.
    const bool given_up =
        plan_.gives_up < plan_.tokens.size() && plan_.gives_up_at < plan_.calls.size() &&
        (error.code == ErrorCode::unavailable || error.code == ErrorCode::peer_dead);
    world_.require(given_up || (error.code == ErrorCode::peer_dead && somebody_died()),
                   error.message);
    return false;
  }

  std::unique_ptr<Communicator> comm_;
  std::uint64_t number_ = 0;
  std::vector<std::unique_ptr<Enqueued>> calls_;
  std::vector<const Enqueued*> pending_;
};

/// The longest block of a flagged call.
inline constexpr std::uint64_t flagged_bytes = 200;

inline coll::Shape direct_shape(std::uint32_t devices, bool flagged = false) {
  coll::Shape shape = devices > 1 ? on_devices(devices) : small_shape;
  shape.direct = true;
  if (flagged) shape.flagged_bytes = coll::flagged_bytes_for(2, flagged_bytes);
  return shape;
}

/// Whether one launch on each rank takes the call, as in gpu/fused_arguments.hpp and
/// Movement::check(): a block of threads does not reduce elements in ascending order.
inline bool is_for_launches(const coll::TestCall& call, coll::Plan plan, const coll::Shape& shape,
                            const coll::NodeMap& node_map) {
  plan.slots = shape.slots;
  const auto ranks = static_cast<std::uint32_t>(call.bytes.size());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const coll::Problem problem = make(call, rank).problem;
    const auto schedule = build(problem, plan, node_map);
    if (!schedule || !coll::can_combine_at_once(*schedule, problem.in_place)) return false;
    const auto program = direct_program_of(*schedule, coll::Layout(ranks, shape), ranks, rank);
    std::size_t words = 0, moves = 0, operands = 0;
    const auto rounds = fused_program_of(program, *schedule);
    for (const coll::FusedRound& round : rounds) {
      words += round.waits.size() + round.signals.size();
      for (const coll::FusedMove& move : round.moves)
        operands += std::max(1u, schedule->steps[move.step].operand_count);
      moves += round.moves.size();
    }
    using gpu::FusedCall;
    if (rounds.size() > FusedCall::max_rounds || words > FusedCall::max_words ||
        moves > FusedCall::max_moves || operands > FusedCall::max_operands)
      return false;
  }
  return true;
}

/// Whether no rank of a flagged call overwrites its own operands.
inline bool can_combine_at_once(const coll::TestCall& call, const coll::Shape& shape) {
  const coll::Plan plan{.slot_bytes = shape.flagged_bytes, .slots = 2, .eager = true};
  for (std::uint32_t rank = 0; rank < call.ranks; ++rank) {
    const coll::Problem problem = make(call, rank).problem;
    const auto schedule = build(problem, plan);
    if (!schedule || !coll::can_combine_at_once(*schedule, problem.in_place)) return false;
  }
  return true;
}

struct Drawing {
  std::uint32_t ranks = 2, calls = 8, victim = ~0u;
  bool watched = true;
  std::uint32_t one_of_by_hosts = 5;  ///< 0: none
  bool one_gives_up = false;
  bool at_the_end = false;  ///< once it has done all its calls
  bool launches = false;    ///< by some of the ranks, or all
  bool empty = false;       ///< GPUs' calls move nothing, with hosts' calls in between
  bool flagged = false;     ///< calls that can be flagged are; by launches of all ranks
  bool only_flagged = false;
  bool broadcasts = false;  ///< all from rank 0, which does not hear the others
  bool alltoalls = false;
  std::vector<Plan::Skip> skips = {};
};

inline coll::TestCall broadcast_from(std::uint32_t root, std::uint32_t ranks, std::uint64_t bytes) {
  const std::vector<std::uint64_t> of_each(ranks, bytes);
  return {.collective = Collective::broadcast,
          .ranks = ranks,
          .root = root,
          .in_place = false,
          .known = true,
          .bytes = std::vector<std::vector<std::uint64_t>>(ranks, of_each)};
}

/// Draws the next call of a plan; none if launches cannot do it.
inline void draw_call(Plan& plan, const Drawing& drawing, std::mt19937_64& random) {
  constexpr std::uint64_t few_lines = 3 * 64;
  const std::size_t number = plan.calls.size();
  coll::TestCall call = coll::draw_call(coll::any_collective(random), drawing.ranks, random);
  coll::Plan how = coll::draw_plan(call.collective, drawing.ranks, random);
  bool by_hosts = drawing.one_of_by_hosts != 0 && random() % drawing.one_of_by_hosts == 0;
  // No rank waits for the last word that it writes.
  if (drawing.at_the_end && number + 1 == drawing.calls)
    call = broadcast_from(plan.gives_up, drawing.ranks, few_lines);
  if (drawing.empty) {
    by_hosts = number % 2 == 0;
    call = broadcast_from(0, drawing.ranks, by_hosts ? few_lines : 0);
  }
  if (drawing.alltoalls) call = coll::draw_call(Collective::alltoall, drawing.ranks, random);
  if (drawing.broadcasts) call = broadcast_from(0, drawing.ranks, 4 * (1 + random() % 50));
  if (call.collective == Collective::broadcast &&
      (drawing.empty || drawing.at_the_end || drawing.broadcasts))
    how = {};
  if (drawing.flagged) call.known = true;
  call.salt = static_cast<std::uint32_t>(random());
  const bool is_flagged = coll::is_flagged(make(call, 0).problem, plan.shape, plan.flagged_bytes);
  if (drawing.only_flagged && !is_flagged) return;
  how.slot_bytes = small_shape.slot_bytes;
  if (is_flagged && !can_combine_at_once(call, plan.shape)) return;
  if (drawing.launches && !is_for_launches(call, how, plan.shape, coll::NodeMap(plan.node_of)))
    return;
  plan.calls.push_back(call);
  plan.plans.push_back(how);
  plan.by_hosts.push_back(by_hosts);
}

inline Scenario calls(const SimulatedPool& pool, std::uint64_t area, const Drawing& drawing) {
  Scenario scenario =
      pool.scenario(fmt::format("collectives by GPUs alone, {} ranks{}{}", drawing.ranks,
                                drawing.victim < drawing.ranks ? ", one dies" : "",
                                drawing.watched ? "" : ", not watched"),
                    nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, area, drawing](World& world) {
    auto plan = std::make_shared<Plan>(area, drawing.ranks);
    plan->watched = drawing.watched;
    if (drawing.one_gives_up) {
      plan->gives_up = static_cast<std::uint32_t>(world.random() % drawing.ranks);
      plan->gives_up_at = drawing.at_the_end ? drawing.calls : world.random() % drawing.calls;
      plan->gives_up_idle = drawing.at_the_end || world.random() % 2 == 0;
      // While it still has calls under way, or just after it has written the last word.
      plan->between_looks_ns = drawing.at_the_end ? 1'000 : 200'000;
    }
    for (std::uint32_t rank = 0; rank < drawing.ranks; ++rank)
      plan->node_of.push_back(rank % nodes);
    std::mt19937_64 random(world.random());
    plan->shape = direct_shape(static_cast<std::uint32_t>(1 + random() % 3), drawing.flagged);
    plan->flagged_bytes = drawing.flagged ? flagged_bytes : 0;
    plan->skips = drawing.skips;
    const bool mixed = !drawing.flagged && world.random() % 2 == 0;
    // No host knows that a rank whose launches count themselves has nothing left to do.
    const auto ends_idle = [&](std::uint32_t rank) {
      return drawing.at_the_end && rank == plan->gives_up;
    };
    for (std::uint32_t rank = 0; rank < drawing.ranks; ++rank)
      plan->forms.push_back(
          drawing.launches && (!mixed || world.random() % 2 == 0)
              ? static_cast<Plan::Form>(1 + world.random() % (ends_idle(rank) ? 1 : 2))
              : Plan::Form::streams);
    while (plan->calls.size() < drawing.calls) draw_call(*plan, drawing, random);
    spawn_ranks<Rank>(world, pool, plan, nodes, drawing.victim);
  };
  return scenario;
}

}  // namespace penstock::sim::direct_calls
