#include "gpu/proxied.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

#include "base/format.hpp"
#include "base/service_thread.hpp"
#include "coll/mover.hpp"

namespace penstock::gpu {

/// Progress of the streams in one call, for the thread that keeps the protocol.
class Proxied::Gates : public coll::Mover {
 public:
  Gates(Proxied& owner, const Submission& submitted)
      : owner_(owner),
        submitted_(submitted),
        looks_between_checks_(
            submitted.prepared->program.bytes >= coll::default_long_call_bytes ? 64 : 4096) {}

  void allow(Lane lane, std::size_t segment) override {
    owner_.allow(lane, submitted_.word_behind(segment + 1));
  }
  bool is_done(Lane lane, std::size_t segment) override {
    const auto& mark = (*owner_.words_)[coll::mark_word(lane)];
    if (mark.load(std::memory_order_acquire) >= submitted_.word_behind(segment + 1)) return true;
    if (++looks_ % looks_between_checks_ == 0) check();
    return false;
  }
  bool ends_call() const override { return submitted_.at_once; }
  Result<void> fetch(std::byte* to, const coll::Span& from) override {
    return keep(owner_.copy_beside([&](cuda::Stream stream) {
      return driver().copy_to_host(to, place_of(submitted_.call, from), from.bytes, stream);
    }));
  }
  Result<void> store(const coll::Span& to, const std::byte* from) override {
    return keep(owner_.copy_beside([&](cuda::Stream stream) {
      return driver().copy_to_device(place_of(submitted_.call, to), from, to.bytes, stream);
    }));
  }
  /// Why the call was cancelled.
  const Result<void>& gpu() const { return gpu_; }

 private:
  const cuda::Driver& driver() const { return owner_.device_->driver(); }
  Result<void> keep(Result<void> copied) {
    if (!copied) gpu_ = copied;
    return copied;
  }
  void check() {
    gpu_ = owner_.watch_->check();
    if (!gpu_) owner_.cancel();
  }

  Proxied& owner_;
  const Submission& submitted_;
  const std::uint32_t looks_between_checks_;  ///< the thread sleeps between looks of a long call
  std::uint32_t looks_ = 0;
  Result<void> gpu_;
};

Result<std::unique_ptr<Communicator>> Proxied::open(coll::Communicator& core,
                                                    const std::vector<Area>& areas,
                                                    std::shared_ptr<const Device> device) {
  PENSTOCK_TRY(device->need_stream_words());
  const BesideCaptures beside(device->driver());
  std::unique_ptr<Proxied> made(new Proxied(core, device));
  made->movement_ = PENSTOCK_TRY(Movement::make(core, areas, device));
  made->words_ = PENSTOCK_TRY(PinnedWords::make(device));
  made->fused_.emplace(PENSTOCK_TRY(FusedLaunches::make(core, *made->movement_, device)));
  made->ends_of_launches_ = PENSTOCK_TRY(LaunchEnds::make(device));
  made->lanes_ = PENSTOCK_TRY(Lanes::make(device));
  made->watch_ = std::make_unique<LaneWatch>(device, *made->lanes_);
  core.drop_copies_of_own_slots();
  made->proxy_ = base::start_service_thread(
      "penstock-gpu", [raw = made.get()] { raw->run_proxy(); }, device->numa_node());
  return made;
}

Proxied::~Proxied() {
  const BesideCaptures beside(device_->driver());
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (proxy_.joinable()) proxy_.join();
  watch_.reset();
  const bool moved = lanes_ != nullptr;
  if (moved) await_rest();
  lanes_.reset();
  if (moved) core_.write_back_own_slots();
  ends_of_launches_.reset();
  words_.reset();
  movement_.reset();
}

/// Launches still read and write words of this rank, on streams that only the program knows.
void Proxied::await_rest() const {
  const Device::Scope scope(*device_);
  (void)lanes_->await_rest([this] { return ends_of_launches_->all_ended(); });
}

Result<void> Proxied::enqueue(const Call& call, cuda::Stream stream) {
  if (const auto failed = known_error()) return unexpected(*failed);
  const Device::Scope scope(*device_);
  const cuda::Driver& driver = device_->driver();
  const BesideCaptures beside(driver);
  if (PENSTOCK_TRY(is_capturing(driver, stream)))
    return fail(ErrorCode::invalid_argument,
                "{}: the stream captures a graph, and this communicator's collectives cannot be "
                "captured: a thread of the host keeps their protocol ({} form). Enqueue it outside "
                "the graph",
                call.name, form());
  Submission submitted = PENSTOCK_TRY(prepare(call));
  std::optional<FusedCall> launch = launch_of(submitted, stream);
  submitted.at_once = launch.has_value();
  last_stream_ = stream;
  {
    // Before the streams get it: operations queued there may have to run before all of it fits.
    const std::lock_guard<std::mutex> guard(mutex_);
    queue_.push_back(submitted);
    unsettled_ = true;
  }
  submitted_.fetch_add(1, std::memory_order_release);
  changed_.notify_all();
  auto issued =
      launch ? issue_at_once(submitted, *launch, stream) : issue_by_lanes(submitted, stream);
  if (!issued) {
    fail_with(issued.error());
    cancel();
  }
  return issued;
}

/// The arithmetic that hosts would use; nullopt if it needs more than the type and the operation.
static std::optional<coll::PredefinedArithmetic> arithmetic_of(const Call& call,
                                                               std::uint32_t ranks) {
  if (!call.reducing || call.reducing->operation == coll::Operation::premultiplied_sum)
    return std::nullopt;
  const auto reduction =
      coll::Reduction::make(call.reducing->type, call.reducing->operation, ranks);
  if (!reduction) return std::nullopt;
  return coll::PredefinedArithmetic(*reduction);
}

Result<Proxied::Submission> Proxied::prepare(const Call& call) {
  Submission made{.call = call, .arithmetic = arithmetic_of(call, core_.ranks())};
  made.prepared = PENSTOCK_TRY(
      core_.prepare_moved({.name = call.name.c_str(),
                           .problem = &call.problem,
                           .plan = core_.plan(call.problem),
                           .arithmetic = made.arithmetic ? &*made.arithmetic : nullptr}));
  PENSTOCK_TRY(movement_->check(call, *made.prepared));
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (queue_.empty()) {  // hosts may have made calls in between
      number_ = core_.begun();
      packets_ = core_.packets();
    }
  }
  made.number = ++number_;
  if (made.prepared->switch_packets != 0) {
    made.number = packets_;
    packets_ += made.prepared->switch_packets;
  }
  made.turn = ++turn_;
  for (const auto& segments : made.prepared->program.lanes)  // a long call takes several turns
    turn_ = std::max(turn_, made.turn + ((segments.size() + 1) >> word_low_bits));
  return made;
}

/// Whether a launch would begin before earlier calls are over, and hold its place on the GPU until
/// then: kernels of the program that come first may need that place.
bool Proxied::would_wait_for_calls(cuda::Stream stream) const {
  const bool is_the_last = stream == last_stream_ && !cuda::is_per_thread(stream);
  const std::lock_guard<std::mutex> guard(mutex_);
  return !is_the_last && !queue_.empty();
}

std::optional<FusedCall> Proxied::launch_of(const Submission& submitted,
                                            cuda::Stream stream) const {
  const coll::Prepared& prepared = *submitted.prepared;
  if (prepared.switch_packets != 0 || !fused_->is_small(submitted.call, false) ||
      would_wait_for_calls(stream))
    return std::nullopt;
  struct Words : FusedLaunches::Words {
    explicit Words(const Proxied& its_owner) : owner(its_owner) {}
    std::uint64_t* at(const coll::DirectOp& op) const override { return owner.at(op.at); }
    bool is_needed(const coll::DirectOp&) const override { return true; }
    const Proxied& owner;
  };
  FusedCall made;
  made.stops = at(stops);
  made.turn.number = submitted.turn;
  if (!fused_->complete(made, submitted.call, prepared, submitted.number, Words(*this)))
    return std::nullopt;
  return made;
}

Result<void> Proxied::await_room(Lanes::Hold& hold) {
  return lanes_->await_room(hold, [this] { return known_error(); });
}

/// On the program's own stream, so that no event is needed.
Result<void> Proxied::issue_at_once(const Submission& submitted, FusedCall& launch,
                                    cuda::Stream stream) {
  Lanes::Hold hold = lanes_->hold();
  do PENSTOCK_TRY(await_room(hold));
  while (!ends_of_launches_->has_room());
  launch.done = ends_of_launches_->word();
  PENSTOCK_TRY(fused_->launch(submitted.call, launch, stream));
  ends_of_launches_->note(submitted.turn);
  return lanes_->count_of_user(stream, 1);
}

Result<void> Proxied::issue_by_lanes(const Submission& submitted, cuda::Stream stream) {
  Lanes::Hold hold = lanes_->hold();
  PENSTOCK_TRY(await_room(hold));
  PENSTOCK_TRY(lanes_->begin_after(stream));
  const auto issued = issue_program(submitted, hold);
  // Also after an error: the lanes still use the program's memory until they have run out.
  const auto ended = lanes_->end_before(stream);
  return issued ? ended : issued;
}

Result<void> Proxied::issue_program(const Submission& submitted, Lanes::Hold& hold) {
  std::array<std::int64_t, coll::lane_count> joined{-1, -1};
  for (const coll::Event& event : submitted.prepared->program.events) {
    PENSTOCK_TRY(await_room(hold));
    PENSTOCK_TRY(issue_event(submitted, event, joined));
    PENSTOCK_TRY(lanes_->count(event.lane));
  }
  // "Done" means that the others know of it too: the program may end now.
  PENSTOCK_TRY(wait_for_gate(Lane::read, submitted.word_at_end()));
  return lanes_->count(Lane::read);
}

Result<void> Proxied::issue_event(const Submission& submitted, const coll::Event& event,
                                  std::array<std::int64_t, coll::lane_count>& joined) {
  const auto& steps = submitted.prepared->schedule.steps;
  const std::size_t lane = index_of(event.lane);
  const std::uint64_t value = submitted.word_behind(event.number + std::uint64_t{1});
  if (event.kind == coll::Event::Kind::gate) return wait_for_gate(event.lane, value);
  if (event.kind == coll::Event::Kind::mark) return set_mark(event.lane, value);
  const coll::Step& step = steps[event.number];
  const bool of_other =
      step.after >= 0 && steps[static_cast<std::size_t>(step.after)].lane != step.lane;
  if (of_other && step.after > joined[lane]) {
    PENSTOCK_TRY(lanes_->join(event.lane));
    joined[lane] = event.number;
  }
  return movement_->move(submitted.call, *submitted.prepared, submitted.number, step, *lanes_,
                         event.lane);
}

Result<void> Proxied::wait_for_gate(Lane lane, std::uint64_t value) {
  return device_->driver().check(
      device_->driver().wait_value(lanes_->stream(lane), words_->at(coll::gate_word(lane)), value,
                                   cuda::wait_value_geq),
      "a wait for a chunk");
}

Result<void> Proxied::set_mark(Lane lane, std::uint64_t value) {
  return device_->driver().check(
      device_->driver().write_value(lanes_->stream(lane), words_->at(coll::mark_word(lane)), value,
                                    cuda::write_value_default),
      "a word that tells of a chunk");
}

Result<void> Proxied::copy_beside(const std::function<cuda::Status(cuda::Stream)>& copy) {
  const cuda::Driver& driver = device_->driver();
  const char* const what = "a copy of a call that goes on without the switch";
  cuda::Stream stream = nullptr;
  PENSTOCK_TRY(driver.check(driver.stream_create(&stream, cuda::stream_non_blocking), what));
  auto copied = driver.check(copy(stream), what);
  if (copied) copied = driver.check(driver.stream_synchronize(stream), what);
  (void)driver.stream_destroy(stream);
  return copied;
}

void Proxied::allow(Lane lane, std::uint64_t value) {
  std::atomic<std::uint64_t>& gate = (*words_)[coll::gate_word(lane)];
  std::uint64_t before = gate.load(std::memory_order_relaxed);
  while (before < value && !gate.compare_exchange_weak(before, value, std::memory_order_release)) {
  }
}

/// The thread that keeps the protocol. It polls for the next call for a while before it sleeps:
/// waking up takes longer than a small collective.
void Proxied::run_proxy() {
  constexpr std::chrono::microseconds stays_awake{100};
  (void)prctl(PR_SET_TIMERSLACK, 1UL);  // it sleeps for parts of a chunk's time
  const Device::Scope scope(*device_);
  const BesideCaptures beside(device_->driver());
  std::uint64_t done = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (queue_.empty() && !ends_) {
      lock.unlock();
      const auto until = std::chrono::steady_clock::now() + stays_awake;
      while (submitted_.load(std::memory_order_acquire) == done &&
             std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
      lock.lock();
    }
    const auto must_notify = [this] { return error_ && !others_know_; };
    changed_.wait(lock, [&] { return !queue_.empty() || ends_ || must_notify(); });
    if (must_notify()) {
      core_.give_up(*error_, queue_.empty());
      others_know_ = true;
      release_streams();
    }
    if (queue_.empty() && ends_) return;
    if (queue_.empty()) continue;
    Submission& submitted = queue_.front();
    lock.unlock();
    run(submitted);
    lock.lock();
    queue_.pop_front();
    ++done;
    changed_.notify_all();
  }
}

void Proxied::run(const Submission& submitted) {
  if (const auto failed = known_error()) return core_.give_up(*failed, false);
  Gates moved(*this, submitted);
  const Call& call = submitted.call;
  auto done = core_.run({.name = call.name.c_str(),
                         .problem = &submitted.prepared->problem,
                         .plan = submitted.prepared->plan,
                         .arithmetic = submitted.arithmetic ? &*submitted.arithmetic : nullptr,
                         .fingerprint = call.fingerprint,
                         .mover = &moved,
                         .timeout_ns = call.timeout_ns,
                         .cancelled = &cancelled_},
                        *submitted.prepared);
  if (!moved.gpu()) {
    core_.give_up(moved.gpu().error(), false);
    return fail_with(moved.gpu().error());
  }
  if (!done) return fail_with(done.error());
  allow(Lane::read, submitted.word_at_end());
}

/// The thread that keeps the protocol tells the others, and then releases the streams.
void Proxied::fail_with(const Error& error) {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!error_) error_ = error;
  }
  changed_.notify_all();
}

/// The lanes run on, and publish into slots that others may be reading: a rank that reads such data
/// also finds that this rank has failed. A launch that waits moves nothing more.
void Proxied::release_streams() {
  (*words_)[stops].store(1, std::memory_order_release);
  for (const Lane lane : both_lanes) allow(lane, all_open);
}

std::optional<Error> Proxied::known_error() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return error_;
}

std::optional<Error> Proxied::error() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (error_ || !unsettled_) return error_;
  }
  if (const auto others = core_.check_others("collectives of a GPU"); !others) {
    fail_with(others.error());
    cancel();
  }
  return known_error();
}

bool Proxied::is_busy() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return !queue_.empty();
}

void Proxied::abort() {
  fail_with({ErrorCode::unavailable, "the communicator was aborted"});
  cancel();
}

Result<void> Proxied::drain() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty(); });
  }
  if (const auto failed = error()) {
    const BesideCaptures beside(device_->driver());
    await_rest();
    return unexpected(*failed);
  }
  const std::lock_guard<std::mutex> guard(mutex_);
  unsettled_ = !queue_.empty();  // another thread may have enqueued more meanwhile
  return {};
}

}  // namespace penstock::gpu
