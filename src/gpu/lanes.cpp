#include "gpu/lanes.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.hpp"

namespace penstock::gpu {

namespace {

constexpr std::array both{Lane::write, Lane::read};

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Result<std::unique_ptr<Lanes>> Lanes::make(std::shared_ptr<const Device> device) {
  std::unique_ptr<Lanes> lanes(new Lanes(std::move(device)));
  PENSTOCK_TRY(lanes->open());
  return lanes;
}

Result<void> Lanes::open() {
  void* const page =
      mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return fail(ErrorCode::no_space, "a page for a GPU's words: {}", std::strerror(errno));
  words_ = static_cast<std::byte*>(page);
  pinned_ = PENSTOCK_TRY(Pinned::make(device_, words_, page_bytes()));
  const cuda::Driver& driver = device_->driver();
  const Device::Scope scope(*device_);
  const auto event = [&](cuda::Event& made) {
    return driver.check(driver.event_create(&made, cuda::event_disable_timing), "an event");
  };
  PENSTOCK_TRY(event(begin_));
  for (const Lane lane : both) {
    PENSTOCK_TRY(event(ends_[index(lane)]));
    PENSTOCK_TRY(driver.check(
        driver.stream_create(&streams_[index(lane)], cuda::stream_non_blocking), "a stream"));
  }
  return {};
}

Lanes::~Lanes() {
  const cuda::Driver& driver = device_->driver();
  const Device::Scope scope(*device_);
  for (const Lane lane : both) {
    if (stream(lane) != nullptr) {
      (void)driver.stream_synchronize(stream(lane));
      (void)driver.stream_destroy(stream(lane));
    }
    if (ends_[index(lane)] != nullptr) (void)driver.event_destroy(ends_[index(lane)]);
  }
  if (begin_ != nullptr) (void)driver.event_destroy(begin_);
  pinned_.reset();
  if (words_ != nullptr) munmap(words_, page_bytes());
}

Result<void> Lanes::begin_after(cuda::Stream user) {
  const cuda::Driver& driver = device_->driver();
  constexpr const char* what = "the begin of a collective";
  PENSTOCK_TRY(go_after(driver, begin_, user, stream(Lane::write), what));
  return driver.check(driver.stream_wait_event(stream(Lane::read), begin_, 0), what);
}

Result<void> Lanes::end_before(cuda::Stream user) {
  for (const Lane lane : both)
    PENSTOCK_TRY(go_after(device_->driver(), ends_[index(lane)], stream(lane), user,
                          "the end of a collective"));
  return {};
}

Result<void> Lanes::join(Lane lane) {
  const Lane other = lane == Lane::write ? Lane::read : Lane::write;
  return go_after(device_->driver(), ends_[index(other)], stream(other), stream(lane),
                  "a wait for a step");
}

Result<void> Lanes::wait_for_gate(Lane lane, std::uint64_t segments) {
  return device_->driver().check(
      device_->driver().wait_value(stream(lane), pinned_->at(at(gates, lane)), segments,
                                   cuda::wait_value_geq),
      "a wait for a chunk");
}

Result<void> Lanes::set_mark(Lane lane, std::uint64_t segments) {
  return device_->driver().check(
      device_->driver().write_value(stream(lane), pinned_->at(at(marks, lane)), segments,
                                    cuda::write_value_default),
      "a word that tells of a chunk");
}

void Lanes::open_all() {
  for (const Lane lane : both) allow(lane, all_open);
}

Result<void> Lanes::check() const {
  for (const Lane lane : both) {
    const cuda::Status status = device_->driver().stream_query(stream(lane));
    if (status != cuda::success && status != cuda::not_ready)
      return device_->driver().check(status, "a collective's stream");
  }
  return {};
}

}  // namespace penstock::gpu
