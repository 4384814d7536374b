#include "gpu/lanes.hpp"

namespace penstock::gpu {

Result<std::unique_ptr<Lanes>> Lanes::make(std::shared_ptr<const Device> device) {
  std::unique_ptr<Lanes> lanes(new Lanes(std::move(device)));
  PENSTOCK_TRY(lanes->open());
  return lanes;
}

Result<void> Lanes::open() {
  const cuda::Driver& driver = device_->driver();
  const Device::Scope scope(*device_);
  const auto event = [&](cuda::Event& made) {
    return driver.check(driver.event_create(&made, cuda::event_disable_timing), "an event");
  };
  PENSTOCK_TRY(event(begin_));
  for (const Lane lane : both_lanes) {
    PENSTOCK_TRY(event(ends_[index_of(lane)]));
    PENSTOCK_TRY(driver.check(
        driver.stream_create(&streams_[index_of(lane)], cuda::stream_non_blocking), "a stream"));
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
  if (begin_ != nullptr) (void)driver.event_destroy(begin_);
}

Result<void> Lanes::begin_after(cuda::Stream user) {
  const cuda::Driver& driver = device_->driver();
  constexpr const char* what = "the begin of a collective";
  PENSTOCK_TRY(go_after(driver, begin_, user, stream(Lane::write), what));
  return driver.check(driver.stream_wait_event(stream(Lane::read), begin_, 0), what);
}

Result<void> Lanes::end_before(cuda::Stream user) {
  for (const Lane lane : both_lanes)
    PENSTOCK_TRY(go_after(device_->driver(), ends_[index_of(lane)], stream(lane), user,
                          "the end of a collective"));
  return {};
}

Result<void> Lanes::join(Lane lane) {
  const Lane other = lane == Lane::write ? Lane::read : Lane::write;
  return go_after(device_->driver(), ends_[index_of(other)], stream(other), stream(lane),
                  "a wait for a step");
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
  return true;
}

Result<void> Lanes::synchronize() const {
  for (const Lane lane : both_lanes)
    PENSTOCK_TRY(device_->driver().check(device_->driver().stream_synchronize(stream(lane)),
                                         "a collective's stream"));
  return {};
}

}  // namespace penstock::gpu
