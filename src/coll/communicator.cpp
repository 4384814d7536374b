#include "coll/communicator.hpp"

#include <algorithm>
#include <utility>

#include "base/awake.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"
#include "coll/call_check.hpp"
#include "coll/changeover.hpp"
#include "coll/direct.hpp"
#include "coll/execution.hpp"
#include "coll/memory_needed.hpp"
#include "coll/planning.hpp"
#include "coll/size_check.hpp"
#include "pool/job_counts.hpp"

namespace penstock::coll {

namespace {

/// Looks between two checks of other lines. A rank that is not awaited by its doorbell reports its
/// failure in another line, and only this rank notices that its own words were overwritten.
constexpr std::uint32_t looks_between_checks = 256;

}  // namespace

struct Communicator::Impl {
  Impl(pool::Pool& pool, const Options& options)
      : state(pool, options),
        plans(options.tuning != nullptr ? *options.tuning : Tuning{}, options.by_gpus),
        schedules(NodeMap(options.nodes)),
        execution(state, schedules, options),
        direct(state),
        check(state, options.check),
        sizes(state.group.ranks(), state.self()),
        changeover(state),
        plan_override(options.plan_override),
        is_direct(options.direct && options.shape.direct),
        flagged_bytes(is_direct ? options.flagged_bytes : 0),
        shares_gpu(options.shares_gpu),
        mixed(options.mixed),
        always_in_switch(options.always_in_switch),
        is_switch_withdrawn(options.is_switch_withdrawn) {}

  State state;
  PlanTable plans;
  PreparedSchedules schedules;
  Execution execution;
  Direct direct;
  CallCheck check;
  SizeCheck sizes;
  /// A call that waits for the comparison of its sizes.
  struct Held {
    Call call;
    std::shared_ptr<const Prepared> prepared;
  };
  std::optional<Held> held;
  std::shared_ptr<const Prepared> compared;  ///< the last call that was held
  Changeover changeover;
  PlanOverride plan_override;
  const bool is_direct;
  const std::uint64_t flagged_bytes;
  const bool shares_gpu, mixed;
  const bool always_in_switch;
  const std::function<bool()> is_switch_withdrawn;
  bool has_left = false;        ///< all ranks have left, and their last calls were compared
  std::uint32_t fruitless = 0;  ///< looks since the last check for failures
  Missing missing;
  const char* name = "";

  Result<Plan> fitting_plan(const Call& call) const;
  Result<const Prepared*> prepare(const Call& call);
  Result<void> start(const Call& of, const Prepared& prepared);
  Result<void> compare_sizes(const Problem& by);
  Result<void> go_on_comparing();
  Plan plan_for(const Problem& problem) const;
  void begin(const Call& of, const Prepared& prepared);
  Result<bool> step();
  Result<bool> check_awaited(bool agreed);
  Result<bool> step_if_one_is_gone();
  /// Like all_left(), but ignores the switch.
  bool ranks_left();
  std::optional<Error> difference_of_last() const {
    return check.difference_of_last("the last calls");
  }
  /// The error if the call's timeout has expired or another thread has cancelled it.
  std::optional<Error> ends_early(const Call& call, std::uint64_t waited_ns) const;
  Result<void> failed(const Error& error);
};

/// The plan, limited to the communicator's own slots.
Result<Plan> Communicator::Impl::fitting_plan(const Call& call) const {
  Plan plan = call.plan;
  plan.slots = plan.eager ? 2 : state.shape.slots;
  plan.slot_bytes =
      plan.eager ? state.shape.eager_bytes : std::min(plan.slot_bytes, state.slots.slot_bytes());
  plan.devices = devices_for(*call.problem, plan.variant, state.shape.devices);
  if (!plan.eager && !state.slots.has(plan.devices))
    return fail(ErrorCode::invalid_argument,
                "{}: the variant {} needs slots of its own on several devices, and there are none",
                call.name, name_of(plan.variant));
  return plan;
}

Result<const Prepared*> Communicator::Impl::prepare(const Call& call) {
  return schedules.get(*call.problem, PENSTOCK_TRY(fitting_plan(call)));
}

namespace {

pool::JobCounter collectives("collectives");

}  // namespace

/// Begins the call, or first the comparison of its sizes. Sizes are not compared if a GPU moves the
/// data of some ranks, because either all ranks compare or none.
Result<void> Communicator::Impl::start(const Call& of, const Prepared& prepared) {
  const bool moved = mixed || of.mover != nullptr;
  if (!check.is_wanted() || moved || !SizeCheck::concerns(prepared.problem.collective)) {
    begin(of, prepared);
    return {};
  }
  held = Held{of, prepared.shared_from_this()};
  auto begun = compare_sizes(sizes.exchange(prepared.problem));
  if (!begun) held.reset();  // nothing was done, and another call may follow
  return begun;
}

Result<void> Communicator::Impl::compare_sizes(const Problem& by) {
  const Call call{.name = held->call.name,
                  .problem = &by,
                  .plan = plan_for(by),
                  .input = sizes.input(),
                  .output = sizes.output()};
  begin(call, *PENSTOCK_TRY(prepare(call)));
  return {};
}

Result<void> Communicator::Impl::go_on_comparing() {
  if (sizes.has_exchanged()) return compare_sizes(sizes.find());
  PENSTOCK_TRY(sizes.verdict(name));
  const Held call = *std::exchange(held, std::nullopt);
  compared = call.prepared;
  begin(call.call, *call.prepared);
  return {};
}

void Communicator::Impl::begin(const Call& of, const Prepared& prepared) {
  if (!held) collectives.add(prepared.input_bytes);
  CallFacts facts = held ? held->prepared->facts : prepared.facts;
  if (held) facts.size = 0;  // the sizes are what this call compares
  state.begin_call(facts, held ? held->call.fingerprint : of.fingerprint);
  check.begin();
  name = of.name;
  fruitless = 0;
  execution.begin(of, prepared);
  if (execution.is_in_switch()) check.begin_in_switch();
}

/// Does one look, or all steps that need no wait.
Result<bool> Communicator::Impl::step() {
  const bool agreed = PENSTOCK_TRY(check.all_agree(name, missing));
  Result<bool> done = false;
  if (agreed) done = execution.advance(missing);
  // A rank with a GPU checks this by itself. The result may hold data that another rank's streams
  // stored after a failure.
  if (done && *done && mixed && execution.call().mover == nullptr)
    PENSTOCK_TRY(state.check_others(name));
  if (done && !*done && ++fruitless % looks_between_checks == 0) done = check_awaited(agreed);
  if (done && *done && held) {
    PENSTOCK_TRY(go_on_comparing());
    done = false;
  }
  return done;
}

/// Whether the awaited ranks can still do their part. Data that they published just before they
/// failed may have arrived since the last look.
Result<bool> Communicator::Impl::check_awaited(bool agreed) {
  state.restore_own_words();
  std::optional<std::uint32_t> failed;
  auto living = check.compare(name, missing);
  if (living) living = state.check_failures(name, missing, failed);
  if (living) return false;
  // A rank that failed because sizes differ had the sizes of all ranks, so this rank can get them
  // too. Likewise, rank 0 publishes that it found no room for slots before it fails. A rank that
  // failed may have done its part in this call before.
  if (!agreed || !(failed || held || execution.awaits_slots())) return unexpected(living.error());
  const auto done = execution.advance(missing);
  if (done && *done) return true;
  const bool awaits_it = !failed || std::ranges::find(missing, *failed) != missing.end();
  if (!done || awaits_it) return unexpected(living.error());
  return false;
}

/// A rank that is gone may have done its awaited work before.
Result<bool> Communicator::Impl::step_if_one_is_gone() {
  const Missing awaited = missing;
  for (const std::uint32_t rank : awaited) {
    auto living = state.group.check_alive(rank, name);
    if (living) continue;
    if (PENSTOCK_TRY(step())) return true;
    if (std::find(missing.begin(), missing.end(), rank) != missing.end())
      return unexpected(living.error());
  }
  return false;
}

std::optional<Error> Communicator::Impl::ends_early(const Call& call,
                                                    std::uint64_t waited_ns) const {
  const bool cancelled =
      call.cancelled != nullptr && __atomic_load_n(call.cancelled, __ATOMIC_ACQUIRE) != 0;
  if (!cancelled && (call.timeout_ns == 0 || waited_ns < call.timeout_ns)) return std::nullopt;
  if (cancelled)
    return Error{ErrorCode::unavailable, fmt::format("{}: was cancelled while it waited for {}",
                                                     call.name, state.group.names(missing))};
  return Error{ErrorCode::deadline,
               fmt::format("{}: has waited {:.1f} s for {}", call.name,
                           static_cast<double>(waited_ns) * 1e-9, state.group.awaited(missing))};
}

/// A rank that finds a difference between calls fails, and its process may exit. The other ranks
/// must report the difference, not that exit.
Result<void> Communicator::Impl::failed(const Error& error) {
  const bool of_another =
      error.code == ErrorCode::peer_dead || error.code == ErrorCode::unavailable;
  const auto difference = of_another ? check.difference_of_failed(name) : std::nullopt;
  state.fail_with(difference.value_or(error));
  return unexpected(*state.failure());
}

Result<std::unique_ptr<Communicator>> Communicator::open(pool::Pool& pool, Options options) {
  const std::size_t ranks = options.tokens.size();
  if (options.self >= ranks)
    return fail(ErrorCode::invalid_argument, "rank {} of a {} of {} ranks", options.self,
                options.noun, ranks);
  PENSTOCK_TRY(check_memory(options, pool.info().bytes));
  if (options.shape.late_slots && options.self == 0 && !options.take_slots)
    return fail(ErrorCode::invalid_argument, "slots that come late, and no function to take them");
  return std::make_unique<Communicator>(std::make_unique<Impl>(pool, options));
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() = default;

Plan Communicator::plan(const Problem& problem) const {
  return impl_->plan_for(problem);
}

Plan Communicator::Impl::plan_for(const Problem& problem) const {
  const NodeMap& nodes = schedules.nodes();
  Plan made = plan_override.applied_to(plans.plan(problem, state.shape, nodes), problem,
                                       nodes.ranks() != 0);
  made.in_switch = made.in_switch || always_in_switch;
  made.eager = made.eager && !mixed;
  return made;
}

Result<void> Communicator::begin(const Call& call) {
  if (impl_->state.failure()) return unexpected(*impl_->state.failure());
  return impl_->start(call, *PENSTOCK_TRY(impl_->prepare(call)));
}

Result<std::shared_ptr<const Prepared>> Communicator::prepare(const Call& call) {
  const Prepared* const prepared = PENSTOCK_TRY(impl_->prepare(call));
  return prepared->shared_from_this();
}

Result<std::shared_ptr<const Prepared>> Communicator::prepare_moved(const Call& call) {
  Call by_slots = call;
  by_slots.plan.eager = false;
  const Plan plan = PENSTOCK_TRY(impl_->fitting_plan(by_slots));
  by_slots.plan = plan;
  const SwitchExecutor* const in_switch = impl_->execution.in_switch();
  const std::uint64_t packets = in_switch == nullptr ? 0 : in_switch->packets_of_moved(by_slots);
  if (packets != 0)
    return impl_->schedules
        .get_moved_by_switch(*call.problem, plan, packets,
                             [&] { return in_switch->schedule_of_moved(by_slots); })
        ->shared_from_this();
  return PENSTOCK_TRY(impl_->schedules.get_moved(*call.problem, plan))->shared_from_this();
}

Result<std::shared_ptr<const Prepared>> Communicator::prepare_direct(const Call& call) {
  const Shape& shape = impl_->state.shape;
  if (!impl_->plan_override.slots_only && is_flagged(*call.problem, shape, impl_->flagged_bytes)) {
    const Plan plan{.slot_bytes = shape.flagged_bytes, .slots = 2, .eager = true};
    return PENSTOCK_TRY(impl_->schedules.get_flagged(*call.problem, plan))->shared_from_this();
  }
  Call by_slots = call;
  by_slots.plan.eager = false;
  const Plan plan = PENSTOCK_TRY(impl_->fitting_plan(by_slots));
  return PENSTOCK_TRY(impl_->schedules.get_direct(*call.problem, plan, impl_->state.layout))
      ->shared_from_this();
}

Direct& Communicator::direct() {
  return impl_->direct;
}

std::byte* Communicator::chunk_of(const Prepared& prepared, std::uint64_t number,
                                  std::uint32_t rank, std::uint64_t chunk) const {
  if (prepared.switch_packets != 0)
    return impl_->execution.in_switch()->moved_chunk(number, rank, chunk);
  return impl_->state.slots.at(prepared.plan.devices, rank, number, chunk);
}

std::uint64_t Communicator::begun() const {
  return impl_->state.begun();
}

std::uint64_t Communicator::packets() const {
  const SwitchExecutor* const in_switch = impl_->execution.in_switch();
  return in_switch == nullptr ? 0 : in_switch->packets();
}

Result<void> Communicator::begin(const Call& call, const Prepared& prepared) {
  if (impl_->state.failure()) return unexpected(*impl_->state.failure());
  return impl_->start(call, prepared);
}

const std::vector<std::uint32_t>& Communicator::awaited() const {
  return impl_->missing;
}

std::uint64_t Communicator::position() const {
  return impl_->execution.position();
}

Result<void> Communicator::await_slots(const char* what) {
  Impl& my = *impl_;
  Result<bool> obtained = false;
  my.missing.assign(1, 0);
  const auto waited = my.state.group.wait(what, my.missing, [&] {
    obtained = my.execution.late_slots().obtain(what, my.missing);
    if (!obtained || *obtained) my.missing.clear();
  });
  if (!waited) return my.failed(waited.error());
  if (!obtained) return my.failed(obtained.error());
  return {};
}

void Communicator::drop_copies_of_own_slots() {
  State& state = impl_->state;
  const coherence::Memory& memory = state.group.memory;
  if (!memory.loads_may_be_stale()) return;
  state.slots.invalidate_slots_of(memory, state.self());
  if (impl_->execution.in_switch() != nullptr)
    impl_->execution.in_switch()->drop_copies_of_operands();
  memory.load_fence();
}

void Communicator::write_back_own_slots() {
  const State& state = impl_->state;
  state.slots.write_back_slots_of(state.group.memory, state.self());
}

std::optional<TakenSlots> Communicator::taken_slots() const {
  return impl_->execution.late_slots().taken();
}

Result<void> Communicator::wait(const char* what, std::vector<std::uint32_t>& missing,
                                const std::function<void()>& look) {
  return impl_->state.group.wait(what, missing, look);
}

Result<bool> Communicator::advance() {
  Impl& my = *impl_;
  if (my.state.failure()) return unexpected(*my.state.failure());
  auto done = my.step();
  if (done && !*done) done = my.step_if_one_is_gone();
  if (!done) return unexpected(my.failed(done.error()).error());
  return *done;
}

Result<void> Communicator::run(const Call& call) {
  if (impl_->state.failure()) return unexpected(*impl_->state.failure());
  return run(call, *PENSTOCK_TRY(impl_->prepare(call)));
}

Result<void> Communicator::run(const Call& call, const Prepared& prepared) {
  constexpr int looks_at_once = 32;
  PENSTOCK_TRY(begin(call, prepared));
  Impl& my = *impl_;
  Result<bool> done = false;
  for (int look = 0; look < looks_at_once; ++look) {
    done = my.step();
    if (!done) return my.failed(done.error());
    if (*done) return {};
  }
  constexpr std::uint64_t longest_gap_ns = 100'000'000;
  base::AwakeClock awake(longest_gap_ns);
  // Each part of the call has its own wait, because a long wait polls less and less often.
  while (done && !*done) {
    const std::uint64_t before = position();
    const auto look = [&] {
      my.execution.rest();
      if (done && !*done) done = my.step();
      if (done && !*done) {
        const auto early = my.ends_early(call, awake.now_ns());
        if (!early && position() == before) return;
        if (early) done = unexpected(*early);
      }
      my.missing.clear();
    };
    auto all = my.state.group.wait(call.name, my.missing, look);
    if (!all) return my.failed(all.error());
  }
  if (!done) return my.failed(done.error());
  return {};
}

void Communicator::offer_change(std::uint64_t first) {
  impl_->changeover.offer(first);
}

bool Communicator::all_change(const char* what, std::uint64_t crossing) {
  return impl_->changeover.all_change(what, crossing);
}

void Communicator::give_up(const Error& error, bool idle) {
  if (!impl_->state.failure()) impl_->state.fail_with(error, idle);
}

Result<void> Communicator::check_others(const char* what) const {
  return impl_->state.check_others(what);
}

void Communicator::note_elsewhere(bool idle) {
  impl_->check.note_elsewhere(idle);
}

void Communicator::leave() {
  impl_->check.leave();
  impl_->state.leave();
}

bool Communicator::Impl::ranks_left() {
  if (state.all_left(missing)) {
    const auto error = std::exchange(has_left, true) ? std::nullopt : difference_of_last();
    if (error) base::log(base::Level::error, "{}", error->message);
    return true;
  }
  if (++fruitless % looks_between_checks == 0) state.restore_own_words();
  return false;
}

const std::vector<std::uint32_t>& Communicator::remaining() {
  (void)impl_->state.all_left(impl_->missing);
  return impl_->missing;
}

std::optional<Error> Communicator::difference_of_last() const {
  return impl_->difference_of_last();
}

bool Communicator::all_left() {
  return impl_->ranks_left() && is_switch_withdrawn();
}

bool Communicator::is_switch_withdrawn() {
  return !impl_->is_switch_withdrawn || impl_->is_switch_withdrawn();
}

Result<void> Communicator::await_all_left(const char* what) {
  Impl& my = *impl_;
  if (!my.ranks_left())
    PENSTOCK_TRY(my.state.group.wait(what, my.missing, [&my] { (void)my.ranks_left(); }));
  base::Waiter waiter("the switch to let go of a communicator", 0);
  while (!is_switch_withdrawn()) PENSTOCK_TRY(waiter.pause());
  return {};
}

std::uint32_t Communicator::ranks() const {
  return impl_->state.group.ranks();
}
std::uint32_t Communicator::self() const {
  return impl_->state.self();
}
bool Communicator::is_direct() const {
  return impl_->is_direct;
}
bool Communicator::has_flagged_calls() const {
  return impl_->flagged_bytes != 0 && impl_->state.shape.flagged_bytes != 0;
}
std::byte* Communicator::flagged_block_of(std::uint32_t rank, std::uint64_t call) const {
  return impl_->state.at(impl_->state.layout.flagged(rank, call));
}
bool Communicator::shares_gpu() const {
  return impl_->shares_gpu;
}
const Shape& Communicator::shape() const {
  return impl_->state.shape;
}

}  // namespace penstock::coll
