#include "gpu/lanes.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace penstock::gpu {

Lanes::Lanes(std::shared_ptr<const Device> device, bool captured)
    : device_(std::move(device)),
      captured_(captured),
      outstanding_{Outstanding(*device_), Outstanding(*device_), Outstanding(*device_)} {}

Result<std::unique_ptr<Lanes>> Lanes::make(std::shared_ptr<const Device> device, bool captured) {
  std::unique_ptr<Lanes> lanes(new Lanes(std::move(device), captured));
  PENSTOCK_TRY(lanes->open());
  return lanes;
}

Result<void> Lanes::open() {
  const cuda::Driver& driver = device_->driver();
  const Device::Scope scope(*device_);
  const auto event = [&](cuda::Event& made) {
    return driver.check(driver.event_create(&made, cuda::event_disable_timing), "an event");
  };
  for (Outstanding& outstanding : outstanding_) PENSTOCK_TRY(outstanding.open());
  PENSTOCK_TRY(event(begin_));
  PENSTOCK_TRY(event(on_user_));
  // Other ranks wait for these streams; the program's kernels can wait.
  int least = 0, greatest = 0;
  PENSTOCK_TRY(driver.check(driver.context_priorities(&least, &greatest), "priorities of streams"));
  for (const Lane lane : both_lanes) {
    PENSTOCK_TRY(event(ends_[index_of(lane)]));
    PENSTOCK_TRY(driver.check(driver.stream_create_with_priority(
                                  &streams_[index_of(lane)], cuda::stream_non_blocking, greatest),
                              "a stream"));
  }
  return {};
}

Lanes::~Lanes() {
  const cuda::Driver& driver = device_->driver();
  const Device::Scope scope(*device_);
  for (const Lane lane : both_lanes) {
    if (stream(lane) != nullptr) {
      (void)driver.stream_synchronize(stream(lane));
      (void)driver.stream_destroy(stream(lane));
    }
    if (ends_[index_of(lane)] != nullptr) (void)driver.event_destroy(ends_[index_of(lane)]);
  }
  for (const cuda::Event event : {begin_, on_user_})
    if (event != nullptr) (void)driver.event_destroy(event);
}

Result<void> Lanes::count(Lane lane, std::uint64_t operations) {
  if (captured_) return {};
  return outstanding_[index_of(lane)].count(stream(lane), operations);
}

/// Calls are in order whichever streams the program uses, and so are the marks behind them.
Result<void> Lanes::count_of_user(cuda::Stream user, std::uint64_t operations) {
  if (captured_) return {};
  return outstanding_.back().count(user, operations);
}

Result<bool> Lanes::has_room(std::uint64_t more) {
  for (Outstanding& outstanding : outstanding_)
    if (!PENSTOCK_TRY(outstanding.has_room(more))) return false;
  return true;
}

Result<void> Lanes::await_room(Hold& hold, const std::function<std::optional<Error>()>& failed) {
  constexpr int yields = 100;
  constexpr std::chrono::microseconds between{20};
  for (int looks = 0; !PENSTOCK_TRY(has_room()); ++looks) {
    if (const auto error = failed()) return unexpected(*error);
    hold.unlock();
    looks < yields ? std::this_thread::yield() : std::this_thread::sleep_for(between);
    hold.lock();
  }
  return {};
}

Result<void> Lanes::begin_after(cuda::Stream user) {
  const cuda::Driver& driver = device_->driver();
  constexpr const char* what = "the begin of a collective";
  PENSTOCK_TRY(go_after(driver, begin_, user, stream(Lane::write), what));
  PENSTOCK_TRY(driver.check(driver.stream_wait_event(stream(Lane::read), begin_, 0), what));
  const bool was_on_user = std::exchange(was_on_user_, false);
  for (const Lane lane : both_lanes) {
    if (was_on_user)
      PENSTOCK_TRY(driver.check(driver.stream_wait_event(stream(lane), on_user_, 0), what));
    PENSTOCK_TRY(count(lane, was_on_user ? 2 : 1));
  }
  return {};
}

Result<void> Lanes::begin_on(cuda::Stream user) {
  const auto wait = [&](cuda::Event event) {
    return device_->driver().check(device_->driver().stream_wait_event(user, event, 0),
                                   "the begin of a collective");
  };
  if (was_on_user_) return wait(on_user_);
  for (const cuda::Event end : ends_) PENSTOCK_TRY(wait(end));
  return {};
}

Result<void> Lanes::end_on(cuda::Stream user) {
  constexpr std::uint64_t with_begin_and_call = 4;
  was_on_user_ = true;
  PENSTOCK_TRY(device_->driver().check(device_->driver().event_record(on_user_, user),
                                       "the end of a collective"));
  return count_of_user(user, with_begin_and_call);
}

Result<void> Lanes::end_before(cuda::Stream user) {
  constexpr std::uint64_t with_begin = 3;
  for (const Lane lane : both_lanes) {
    PENSTOCK_TRY(go_after(device_->driver(), ends_[index_of(lane)], stream(lane), user,
                          "the end of a collective"));
    PENSTOCK_TRY(count(lane));
  }
  return count_of_user(user, with_begin);
}

Result<void> Lanes::join(Lane lane) {
  const Lane other = lane == Lane::write ? Lane::read : Lane::write;
  PENSTOCK_TRY(go_after(device_->driver(), ends_[index_of(other)], stream(other), stream(lane),
                        "a wait for a step"));
  for (const Lane each : both_lanes) PENSTOCK_TRY(count(each));
  return {};
}

Result<void> Lanes::check() const {
  for (const Lane lane : both_lanes) {
    const cuda::Status status = device_->driver().stream_query(stream(lane));
    if (status != cuda::success && status != cuda::not_ready)
      return device_->driver().check(status, "a collective's stream");
  }
  return {};
}

bool Lanes::are_idle() const {
  for (const Lane lane : both_lanes)
    if (device_->driver().stream_query(stream(lane)) == cuda::not_ready) return false;
  return device_->driver().event_query(on_user_) != cuda::not_ready;
}

Result<void> Lanes::await_rest(const std::function<bool()>& others_rest) const {
  constexpr std::chrono::microseconds between{100};
  const auto is_at_rest = [&]() -> Result<bool> {
    const Hold held = hold();
    PENSTOCK_TRY(check());
    return are_idle() && others_rest();
  };
  while (!PENSTOCK_TRY(is_at_rest())) std::this_thread::sleep_for(between);
  return {};
}

}  // namespace penstock::gpu
