#include "gpu/direct.hpp"

#include <pthread.h>

#include <chrono>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"

namespace penstock::gpu {

namespace {

constexpr std::chrono::milliseconds between_looks{20}, between_raises{1};
constexpr std::uint64_t ns_a_ms = 1'000'000;
/// The time in which a stopped process saw nothing counts for no wait.
constexpr std::uint64_t longest_gap_ns = 5 * 20 * ns_a_ms;

}  // namespace

Result<std::unique_ptr<Communicator>> Direct::open(coll::Communicator& core,
                                                   const std::vector<Area>& areas,
                                                   std::shared_ptr<const Device> device) {
  PENSTOCK_TRY(device->need_stream_words());
  std::unique_ptr<Direct> made(new Direct(core, device));
  made->movement_ = PENSTOCK_TRY(Movement::make(core, areas, device));
  made->words_ = PENSTOCK_TRY(PinnedWords::make(device));
  made->lanes_ = PENSTOCK_TRY(Lanes::make(device));
  core.direct().count_in(reinterpret_cast<std::uint64_t*>(&(*made->words_)[begun]),
                         reinterpret_cast<const std::uint64_t*>(&(*made->words_)[done]));
  made->watchdog_ = std::thread([raw = made.get()] { raw->run_watchdog(); });
  return made;
}

Direct::~Direct() {
  (void)drain();
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (watchdog_.joinable()) watchdog_.join();
  core_.direct().count_by_itself();
  lanes_.reset();
}

Result<void> Direct::enqueue(const Call& call, cuda::Stream stream) {
  if (const auto failed = error()) return unexpected(*failed);
  const Device::Scope scope(*device_);
  const coll::Call core_call{
      .name = call.name.c_str(), .problem = &call.problem, .plan = core_.plan(call.problem)};
  Submission submitted{.name = call.name,
                       .prepared = PENSTOCK_TRY(core_.prepare_direct(core_call)),
                       .timeout_ns = call.timeout_ns};
  PENSTOCK_TRY(movement_->check(call, submitted.prepared->schedule));
  submitted.turn = core_.direct().next();
  {
    // Before the streams get it: what is queued there may have to go on before all of it fits.
    const std::lock_guard<std::mutex> guard(mutex_);
    under_way_.push_back(submitted);
    unsettled_ = true;
  }
  changed_.notify_all();
  auto issued = issue(call, submitted, stream);
  if (!issued) fail_with(issued.error());
  return issued;
}

void Direct::add(std::vector<cuda::BatchOp>& ops, const coll::DirectOp& op,
                 const coll::DirectTurn& turn) const {
  const bool waits =
      op.kind == coll::DirectOp::Kind::await || op.kind == coll::DirectOp::Kind::free;
  ops.push_back({.operation = waits ? cuda::batch_wait_value_64 : cuda::batch_write_value_64,
                 .at = movement_->in_pool(core_.direct().word_at(op)),
                 .value = turn.value(op),
                 .flags = waits ? cuda::wait_value_geq : cuda::write_value_default});
}

/// A write comes behind a fence for all that the stream was given before it.
Result<void> Direct::flush(Lane lane) {
  constexpr std::size_t most = 256;
  std::vector<cuda::BatchOp>& ops = batch_[index_of(lane)];
  for (std::size_t at = 0; at < ops.size(); at += most) {
    const auto count = static_cast<unsigned>(std::min(most, ops.size() - at));
    PENSTOCK_TRY(device_->driver().check(
        device_->driver().batch(lanes_->stream(lane), count, ops.data() + at, 0),
        "waits for words of the pool"));
  }
  ops.clear();
  return {};
}

Result<void> Direct::issue(const Call& call, const Submission& submitted, cuda::Stream stream) {
  using Kind = coll::DirectOp::Kind;
  coll::Direct& core = core_.direct();
  const coll::Prepared& prepared = *submitted.prepared;
  const coll::DirectTurn& turn = submitted.turn;
  PENSTOCK_TRY(lanes_->begin_after(stream));
  // Both lanes begin a call together: who hears of this rank in it knows that the last one is over.
  for (const Lane lane : both_lanes) PENSTOCK_TRY(lanes_->join(lane));
  for (const coll::DirectOp& op : prepared.direct) {
    if (op.kind == Kind::resume && !turn.resumes) continue;
    if (op.kind == Kind::free && core.heard(op.rank, turn.free)) continue;
    if (op.kind == Kind::join) {
      for (const Lane lane : both_lanes) PENSTOCK_TRY(flush(lane));
      PENSTOCK_TRY(lanes_->join(op.lane));
    } else if (op.kind == Kind::move) {
      PENSTOCK_TRY(flush(op.lane));
      PENSTOCK_TRY(movement_->move(call, prepared, turn.half, prepared.schedule.steps[op.step],
                                   lanes_->stream(op.lane)));
    } else {
      add(batch_[index_of(op.lane)], op, turn);
    }
  }
  core.note(prepared.direct, turn);
  batch_[index_of(Lane::read)].push_back({.operation = cuda::batch_write_value_64,
                                          .at = words_->at(done),
                                          .value = turn.number,
                                          .flags = cuda::write_value_default});
  for (const Lane lane : both_lanes) PENSTOCK_TRY(flush(lane));
  return lanes_->end_before(stream);
}

/// It moves nothing, and nothing waits for it while all live.
void Direct::run_watchdog() {
  pthread_setname_np(pthread_self(), "penstock-watch");
  const Device::Scope scope(*device_);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ends_) {
    if (error_) {
      let_go(lock);
    } else if (under_way_.empty()) {
      changed_.wait(lock, [this] { return ends_ || error_ || !under_way_.empty(); });
    } else {
      changed_.wait_for(lock, between_looks, [this] { return ends_ || error_; });
      if (const auto looked = look(); !looked && !error_) error_ = looked.error();
    }
  }
}

/// Until the streams are idle: another rank's GPU may tell a word once more.
void Direct::let_go(std::unique_lock<std::mutex>& lock) {
  if (!others_know_) core_.give_up(*error_);
  others_know_ = true;
  core_.direct().let_go();
  const bool idle = lanes_->are_idle();
  changed_.wait_for(lock, idle ? between_looks : between_raises, [this] { return ends_; });
}

Result<void> Direct::look() {
  const std::uint64_t last = (*words_)[done].load(std::memory_order_acquire);
  while (!under_way_.empty() && under_way_.front().turn.number <= last) under_way_.pop_front();
  if (under_way_.empty()) return {};
  const Submission& submitted = under_way_.front();
  PENSTOCK_TRY(lanes_->check());
  PENSTOCK_TRY(core_.direct().look(submitted.name.c_str(), &submitted.prepared->direct,
                                   submitted.turn, missing_));
  return check_time(submitted);
}

/// As a host's call: it ends at its own timeout; else it is named every PENSTOCK_TIMEOUT_MS.
Result<void> Direct::check_time(const Submission& submitted) {
  const std::uint64_t interval_ns = base::default_timeout_ns();
  if (looked_at_ != submitted.turn.number) {
    looked_at_ = submitted.turn.number;
    waited_.emplace(longest_gap_ns);
    next_warning_ns_ = interval_ns;
  }
  const std::uint64_t waited = waited_->now_ns();
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

void Direct::fail_with(const Error& error) {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!error_) error_ = error;
  }
  changed_.notify_all();
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

void Direct::abort() {
  fail_with({ErrorCode::unavailable, "the communicator was aborted"});
}

Result<void> Direct::drain() {
  const Device::Scope scope(*device_);
  if (const auto over = lanes_->synchronize(); !over) fail_with(over.error());
  if (const auto failed = error()) return unexpected(*failed);
  const std::lock_guard<std::mutex> guard(mutex_);
  under_way_.clear();
  unsettled_ = false;
  return {};
}

}  // namespace penstock::gpu
