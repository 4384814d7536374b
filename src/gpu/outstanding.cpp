#include "gpu/outstanding.hpp"

namespace penstock::gpu {

Result<void> Outstanding::open() {
  for (Mark& mark : marks_)
    PENSTOCK_TRY(
        driver_.check(driver_.event_create(&mark.event, cuda::event_disable_timing), "an event"));
  return {};
}

Outstanding::~Outstanding() {
  const Device::Scope scope(device_);
  for (const Mark& mark : marks_)
    if (mark.event != nullptr) (void)driver_.event_destroy(mark.event);
}

Result<void> Outstanding::count(cuda::Stream stream, std::uint64_t operations) {
  issued_ += operations;
  // Without an event to spare a later one covers these operations too.
  if (issued_ - marked_ < between_marks || next_ - first_ == marks_.size()) return {};
  Mark& made = mark(next_);
  PENSTOCK_TRY(driver_.check(driver_.event_record(made.event, stream), "a mark of a stream"));
  made.issued = marked_ = ++issued_;
  ++next_;
  return {};
}

Result<bool> Outstanding::has_room(std::uint64_t more) {
  while (issued_ - done_ + more >= most && first_ != next_) {
    const Mark& oldest = mark(first_);
    const cuda::Status status = driver_.event_query(oldest.event);
    if (status == cuda::not_ready) break;
    PENSTOCK_TRY(driver_.check(status, "a collective's stream"));
    done_ = oldest.issued;
    ++first_;
  }
  return issued_ - done_ + more < most || first_ == next_;
}

}  // namespace penstock::gpu
