#include "gpu/direct.hpp"

#include <chrono>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/service_thread.hpp"
#include "base/wait.hpp"

namespace penstock::gpu {

namespace {

constexpr std::chrono::milliseconds between_looks{20}, between_raises{1};
constexpr std::uint64_t ns_a_ms = 1'000'000;
/// The longest gap between two looks that counts: a stopped process saw nothing in a longer one.
constexpr std::uint64_t longest_gap_ns = 5 * 20 * ns_a_ms;

}  // namespace

Result<std::unique_ptr<Communicator>> Direct::open(coll::Communicator& core,
                                                   const std::vector<Area>& areas,
                                                   std::shared_ptr<const Device> device) {
  const BesideCaptures beside(device->driver());
  std::unique_ptr<Direct> made(new Direct(core, device));
  made->movement_ = PENSTOCK_TRY(Movement::make(core, areas, device));
  made->words_ = PENSTOCK_TRY(StreamWords::make(core.direct(), *made->movement_, device));
  made->fused_.emplace(PENSTOCK_TRY(FusedLaunches::make(core, *made->movement_, device)));
  made->flagged_ = PENSTOCK_TRY(FlaggedLaunches::make(core, *made->movement_, device));
  made->lanes_ = PENSTOCK_TRY(Lanes::make(device));
  made->captured_lanes_ = PENSTOCK_TRY(Lanes::make(device, true));
  made->watch_ = std::make_unique<LaneWatch>(device, *made->lanes_);
  made->by_launches_ = !device->has_stream_words();
  if (made->by_launches_) PENSTOCK_TRY(device->words_kernel());
  StreamWords& words = *made->words_;
  core.direct().count_in(reinterpret_cast<std::uint64_t*>(&words[StreamWords::number]),
                         reinterpret_cast<const std::uint64_t*>(&words[StreamWords::done]));
  made->watchdog_ = base::start_service_thread(
      "penstock-watch", [raw = made.get()] { raw->run_watchdog(); }, device->numa_node());
  return made;
}

Direct::~Direct() {
  const BesideCaptures beside(device_->driver());
  if (watchdog_.joinable()) {
    (void)drain();
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    watchdog_.join();
    core_.direct().count_by_itself();
  }
  watch_.reset();
  captured_lanes_.reset();
  lanes_.reset();
  flagged_.reset();
  words_.reset();
  movement_.reset();
}

Result<void> Direct::enqueue(const Call& call, cuda::Stream stream) {
  if (const auto failed = error()) return unexpected(*failed);
  const Device::Scope scope(*device_);
  const cuda::Driver& driver = device_->driver();
  const BesideCaptures beside(driver);
  const bool captures = PENSTOCK_TRY(is_capturing(driver, stream));
  const Submission submitted = PENSTOCK_TRY(prepare(call, captures));
  changed_.notify_all();
  auto issued = issue(call, submitted, captures, stream);
  if (!issued) fail_with(issued.error());
  return issued;
}

Result<Direct::Submission> Direct::prepare(const Call& call, bool captures) {
  const coll::Call core_call{
      .name = call.name.c_str(), .problem = &call.problem, .plan = core_.plan(call.problem)};
  Submission submitted{.name = call.name,
                       .prepared = PENSTOCK_TRY(core_.prepare_direct(core_call)),
                       .timeout_ns = call.timeout_ns};
  PENSTOCK_TRY(movement_->check(call, *submitted.prepared));
  PENSTOCK_TRY(number(submitted, captures));
  // Before the streams get it: operations queued there may have to run before all of it fits.
  const std::lock_guard<std::mutex> guard(mutex_);
  if (error_) return unexpected(*error_);
  if (submitted.counts_itself && !under_way_.empty() && under_way_.back().counts_itself)
    under_way_.pop_back();
  under_way_.push_back(submitted);
  unsettled_ = true;
  return submitted;
}

/// A graph may be launched any number of times: from the first graph on, each call counts itself on
/// the GPU, when it begins.
Result<void> Direct::number(Submission& submitted, bool captures) {
  coll::Direct& core = core_.direct();
  if (captures && !by_launches_) {
    PENSTOCK_TRY(device_->words_kernel());
    const std::lock_guard<std::mutex> guard(mutex_);
    words_->launch_from(last_);
    by_launches_ = true;
  }
  submitted.counts_itself = by_launches_;
  if (by_launches_) {
    if (!submitted.prepared->flagged) submitted.turn.half = core.take_half();
  } else {
    submitted.turn = core.next(*submitted.prepared);
    last_ = submitted.turn.number;
  }
  return {};
}

Result<void> Direct::issue(const Call& call, const Submission& submitted, bool captures,
                           cuda::Stream stream) {
  Lanes::Hold hold = lanes_->hold();
  if (submitted.prepared->flagged) return issue_flagged(call, submitted, captures, stream, hold);
  if (auto arguments = launch_of(call, submitted)) {
    if (!by_launches_) core_.direct().note(*submitted.prepared, submitted.turn);
    return issue_at_once(captures, stream, hold,
                         [&](cuda::Stream on) { return fused_->launch(call, *arguments, on); });
  }
  return issue_by_lanes(call, submitted, captures ? *captured_lanes_ : *lanes_, stream, hold);
}

std::optional<FusedCall> Direct::launch_of(const Call& call, const Submission& submitted) const {
  if (!fused_->is_small(call, by_launches_)) return std::nullopt;
  struct Words : FusedLaunches::Words {
    Words(const StreamWords& all, const coll::Direct* by_core, const coll::DirectTurn& its_turn)
        : words(all), core(by_core), turn(its_turn) {}
    std::uint64_t* at(const coll::DirectOp& op) const override { return words.in_pool(op); }
    bool is_needed(const coll::DirectOp& op) const override {
      return core == nullptr || core->is_needed(op, turn);
    }
    const StreamWords& words;
    const coll::Direct* const core;  ///< null: the call learns its number only when it begins
    const coll::DirectTurn& turn;
  };
  const coll::DirectTurn& turn = submitted.turn;
  const Words words(*words_, by_launches_ ? nullptr : &core_.direct(), turn);
  FusedCall made;
  words_->describe(made, turn.half);
  made.done = words_->done_word();
  made.begins = by_launches_ ? 1 : 0;
  made.turn = {turn.number, turn.free, turn.resumes ? 1u : 0u};
  if (!fused_->complete(made, call, *submitted.prepared, turn.half, words)) return std::nullopt;
  return made;
}

Result<void> Direct::issue_flagged(const Call& call, const Submission& submitted, bool captures,
                                   cuda::Stream stream, Lanes::Hold& hold) {
  const coll::DirectTurn* const turn = by_launches_ ? nullptr : &submitted.turn;
  FlaggedCall arguments;
  words_->describe(arguments, 0);
  arguments.done = words_->done_word();
  arguments.begins = by_launches_ ? 1 : 0;
  flagged_->complete(arguments, call, *submitted.prepared, turn);
  if (turn != nullptr) core_.direct().note(*submitted.prepared, *turn);
  return issue_at_once(captures, stream, hold,
                       [&](cuda::Stream on) { return flagged_->launch(call, arguments, on); });
}

/// Uses the program's own stream, so that no event is needed. Events of calls outside do not order
/// a graph: there it uses the lanes, which become only edges of the graph.
template <class Launch>
Result<void> Direct::issue_at_once(bool captures, cuda::Stream stream, Lanes::Hold& hold,
                                   const Launch& launch) {
  if (!captures) {
    PENSTOCK_TRY(await_room(*lanes_, hold));
    PENSTOCK_TRY(lanes_->begin_on(stream));
    PENSTOCK_TRY(launch(stream));
    return lanes_->end_on(stream);
  }
  PENSTOCK_TRY(captured_lanes_->begin_after(stream));
  PENSTOCK_TRY(captured_lanes_->join(Lane::read));
  PENSTOCK_TRY(launch(captured_lanes_->stream(Lane::read)));
  return captured_lanes_->end_before(stream);
}

Result<void> Direct::issue_by_lanes(const Call& call, const Submission& submitted, Lanes& lanes,
                                    cuda::Stream stream, Lanes::Hold& hold) {
  PENSTOCK_TRY(await_room(lanes, hold));
  PENSTOCK_TRY(lanes.begin_after(stream));
  const auto issued = issue_program(call, submitted, lanes, hold);
  // Also after an error: the lanes still use the program's memory until they have run out.
  const auto ended = lanes.end_before(stream);
  return issued ? ended : issued;
}

Result<void> Direct::issue_program(const Call& call, const Submission& submitted, Lanes& lanes,
                                   Lanes::Hold& hold) {
  const std::vector<coll::DirectOp>& program = submitted.prepared->direct;
  // Both lanes begin a call together: a rank that hears of this rank's call knows that the previous
  // one is over.
  for (const Lane lane : both_lanes) PENSTOCK_TRY(lanes.join(lane));
  words_->begin({.lanes = &lanes, .turn = submitted.turn, .by_launches = by_launches_});
  std::size_t i = 0;
  for (; i < program.size() && program[i].kind == coll::DirectOp::Kind::resume; ++i)
    PENSTOCK_TRY(issue_op(call, submitted, lanes, program[i]));
  PENSTOCK_TRY(words_->flush(Lane::read));
  // Behind the launch that counts the call.
  if (by_launches_) PENSTOCK_TRY(lanes.join(Lane::write));
  for (; i < program.size(); ++i) {
    PENSTOCK_TRY(await_room(lanes, hold));
    PENSTOCK_TRY(issue_op(call, submitted, lanes, program[i]));
  }
  if (!by_launches_) core_.direct().note(*submitted.prepared, submitted.turn);
  return words_->finish();
}

/// The words that are collected may be all that other ranks need to go on, and so this rank.
Result<void> Direct::await_room(Lanes& lanes, Lanes::Hold& hold) {
  if (PENSTOCK_TRY(lanes.has_room(words_->pending()))) return {};
  for (const Lane lane : both_lanes) PENSTOCK_TRY(words_->flush(lane));
  return lanes.await_room(hold, [this] { return known_error(); });
}

Result<void> Direct::issue_op(const Call& call, const Submission& submitted, Lanes& lanes,
                              const coll::DirectOp& op) {
  using Kind = coll::DirectOp::Kind;
  const coll::Prepared& prepared = *submitted.prepared;
  const coll::DirectTurn& turn = submitted.turn;
  switch (op.kind) {
    case Kind::join:
      for (const Lane lane : both_lanes) PENSTOCK_TRY(words_->flush(lane));
      return lanes.join(op.lane);
    case Kind::move:
      PENSTOCK_TRY(words_->flush(op.lane));
      PENSTOCK_TRY(movement_->move(call, prepared, turn.half, prepared.schedule.steps[op.step],
                                   lanes, op.lane));
      return lanes.count(op.lane);
    default:
      if (!by_launches_ && !core_.direct().is_needed(op, turn)) return {};
      return words_->add(op);
  }
}

/// The watchdog moves no data, and nothing waits for it while all ranks live.
void Direct::run_watchdog() {
  const Device::Scope scope(*device_);
  const BesideCaptures beside(device_->driver());
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ends_) {
    if (error_) {
      release_streams(lock);
    } else if (under_way_.empty()) {
      changed_.wait(lock, [this] { return ends_ || error_ || !under_way_.empty(); });
    } else {
      changed_.wait_for(lock, between_looks, [this] { return ends_ || error_; });
      if (const auto looked = look(); !looked && !error_) error_ = looked.error();
    }
  }
  if (error_) notify_others();  // an aborting rank may end at once
}

/// If nothing is under way, nothing more will be: prepare() refuses further calls.
void Direct::notify_others() {
  if (!others_know_) core_.give_up(*error_, is_over() && under_way_.empty());
  others_know_ = true;
}

/// Repeats it until the streams are idle, because another rank's GPU may still write a word.
void Direct::release_streams(std::unique_lock<std::mutex>& lock) {
  notify_others();
  shown_.reset();
  (*words_)[StreamWords::stops].store(1, std::memory_order_release);
  core_.direct().release_gpu();
  const bool idle = watch_->are_idle();
  changed_.wait_for(lock, idle ? between_looks : between_raises, [this] { return ends_; });
}

std::uint64_t Direct::last_done() const {
  return (*words_)[StreamWords::done].load(std::memory_order_acquire);
}

/// Whether the GPU has done all calls that this host knows of.
bool Direct::is_over() {
  const std::uint64_t last = last_done();
  while (!under_way_.empty() && !under_way_.front().counts_itself &&
         under_way_.front().turn.number <= last)
    under_way_.pop_front();
  if (under_way_.empty() || !under_way_.front().counts_itself) return under_way_.empty();
  // A graph may be launched at any time.
  coll::DirectTurn& turn = under_way_.front().turn;
  turn.number = (*words_)[StreamWords::begun].load(std::memory_order_acquire);
  return turn.number <= last;
}

Result<void> Direct::look() {
  if (is_over()) {
    shown_.reset();
    return {};
  }
  const Submission& submitted = under_way_.front();
  PENSTOCK_TRY(watch_->check());
  const auto looked = core_.direct().look(
      submitted.name.c_str(), submitted.counts_itself ? nullptr : submitted.prepared.get(),
      submitted.turn, missing_);
  // If the GPU has finished the call since, later calls may have overwritten what it waited for.
  if (!looked && last_done() >= submitted.turn.number) return {};
  if (!looked) return looked;
  return check_time(submitted);
}

/// As for a host's call: it fails at its own timeout; else a message names it every
/// PENSTOCK_TIMEOUT_MS.
Result<void> Direct::check_time(const Submission& submitted) {
  const std::uint64_t interval_ns = base::default_timeout_ns();
  if (looked_at_ != submitted.turn.number) {
    looked_at_ = submitted.turn.number;
    waited_.emplace(longest_gap_ns);
    shown_.reset();
    next_warning_ns_ = interval_ns;
  }
  const std::uint64_t waited = waited_->now_ns();
  show(submitted);
  if (missing_.empty()) return {};
  if (submitted.timeout_ns != 0 && waited >= submitted.timeout_ns)
    return fail(ErrorCode::deadline, "{}: has waited {:.1f} s for {} of {} ranks: {}",
                submitted.name, static_cast<double>(waited) * 1e-9, missing_.size(), core_.ranks(),
                core_.direct().names(missing_));
  if (waited < next_warning_ns_) return {};
  next_warning_ns_ += interval_ns;
  base::log(base::Level::warn, "{} waits on for {} of {} ranks: {}", submitted.name,
            missing_.size(), core_.ranks(), core_.direct().names(missing_));
  return {};
}

/// Shows the wait in `penstock ps`, as a host's call does.
void Direct::show(const Submission& submitted) {
  const group::Group& group = core_.direct().group();
  if (missing_.empty()) return shown_.reset();
  if (!shown_) shown_.emplace(group.pool);
  shown_->look([&] { return group.waits_for(submitted.name.c_str(), missing_); });
}

void Direct::fail_with(const Error& error) {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!error_) error_ = error;
  }
  changed_.notify_all();
}

std::optional<Error> Direct::known_error() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return error_;
}

std::optional<Error> Direct::error() {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (error_ || !unsettled_) return error_;
  const auto looked = core_.direct().look_for_failures("collectives of a GPU");
  if (looked) return std::nullopt;
  error_ = looked.error();
  changed_.notify_all();
  return error_;
}

bool Direct::is_busy() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return !error_ && !is_over();
}

void Direct::abort() {
  fail_with({ErrorCode::unavailable, "the communicator was aborted"});
}

/// Graphs run on streams that only the program knows: waits also until the calls that they have
/// begun are done.
Result<void> Direct::await_rest() const {
  const Device::Scope scope(*device_);
  const BesideCaptures beside(device_->driver());
  const auto word = [this](StreamWords::Word which) {
    return (*words_)[which].load(std::memory_order_acquire);
  };
  return lanes_->await_rest([&] { return word(StreamWords::begun) <= word(StreamWords::done); });
}

Result<void> Direct::drain() {
  if (const auto rest = await_rest(); !rest) fail_with(rest.error());
  if (const auto failed = error()) return unexpected(*failed);
  const std::lock_guard<std::mutex> guard(mutex_);
  (void)is_over();                   // another thread may have enqueued more meanwhile
  unsettled_ = !under_way_.empty();  // graphs may be launched again
  if (!unsettled_) shown_.reset();
  return {};
}

}  // namespace penstock::gpu
