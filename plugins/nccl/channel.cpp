#include "nccl/channel.hpp"

#include <sys/mman.h>

#include <utility>

#include "base/format.hpp"
#include "base/numa.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t memory_bytes = 2 * Channel::chunk_bytes + page;

cuda::DevicePointer device_pointer(const std::byte* data) {
  return reinterpret_cast<cuda::DevicePointer>(data);
}

}  // namespace

Result Channel::make(std::shared_ptr<const gpu::Device> device, std::uint32_t peer, bool is_send,
                     std::unique_ptr<Channel>& channel) {
  channel.reset(new Channel(std::move(device), peer, is_send));
  return channel->allocate();
}

Result Channel::checked(cuda::Status status, const char* what) const {
  return outcome(device_->driver().check(status, what));
}

Result Channel::allocate() {
  void* const memory =
      mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failed(system_error, "no memory for a message's chunks");
  memory_ = static_cast<std::byte*>(memory);
  (void)base::keep_on_node(memory, memory_bytes, device_->numa_node());
  auto pinned = gpu::Pinned::make(device_, memory_, memory_bytes);
  if (!pinned) return outcome(unexpected(pinned.error()));
  pinned_ = std::move(*pinned);
  go().store(is_send_ ? buffers : 0, std::memory_order_release);
  const gpu::Device::Scope scope(*device_);
  const Result stream =
      checked(device_->driver().stream_create(&stream_, cuda::stream_non_blocking), "a stream");
  if (stream != success) return stream;
  return checked(device_->driver().event_create(&event_, cuda::event_disable_timing), "an event");
}

Channel::~Channel() {
  const gpu::BesideCaptures beside(device_->driver());
  {
    const gpu::Device::Scope scope(*device_);
    if (stream_ != nullptr) {
      (void)device_->driver().stream_synchronize(stream_);
      (void)device_->driver().stream_destroy(stream_);
    }
    if (event_ != nullptr) (void)device_->driver().event_destroy(event_);
  }
  for (penstock_request_t* const request : requests_) penstock_request_free(request);
  pinned_.reset();
  if (memory_ != nullptr) munmap(memory_, memory_bytes);
}

Result Channel::begin_after(Stream user) {
  return outcome(gpu::go_after(device_->driver(), event_, user, stream_, "a message's begin"));
}

Result Channel::end_before(Stream user) {
  const std::uint64_t unsent = std::exchange(last_from_pool_, 0);
  if (unsent != 0) {
    const Result waits = wait_for_go(unsent + buffers);
    if (waits != success) return waits;
  }
  return outcome(gpu::go_after(device_->driver(), event_, stream_, user, "a message's end"));
}

Result Channel::wait_for_go(std::uint64_t number) {
  return checked(
      device_->driver().wait_value(stream_, pinned_->at(word(0)), number, cuda::wait_value_geq),
      "a wait");
}

Result Channel::reach(std::uint64_t count) {
  if (is_send_) return success;
  return checked(device_->driver().write_value(stream_, pinned_->at(word(2)), enqueued_ + count,
                                               cuda::write_value_default),
                 "a word that tells of a message's memory");
}

Result Channel::enqueue(const Chunk& chunk) {
  const cuda::Driver& driver = device_->driver();
  const std::uint64_t number = enqueued_ + 1;
  const bool from_pool = is_send_ && chunk.in_pool != nullptr;
  if (from_pool) last_from_pool_ = number;
  Result result = from_pool ? success : wait_for_go(number);
  if (result == success && chunk.in_pool == nullptr) {
    const cuda::DevicePointer staged = pinned_->at(buffer(enqueued_)),
                              there = device_pointer(chunk.data);
    result = checked(is_send_ ? driver.copy(staged, there, chunk.bytes, stream_)
                              : driver.copy(there, staged, chunk.bytes, stream_),
                     "a message's copy");
  }
  if (result != success) return result;
  ++enqueued_;
  return checked(
      driver.write_value(stream_, pinned_->at(word(1)), number, cuda::write_value_default),
      "a word that tells of a message");
}

std::byte* Channel::place(std::uint64_t chunk) const {
  std::byte* const in_pool = chunks_[chunk - over_].in_pool;
  return in_pool != nullptr ? in_pool : buffer(chunk);
}

/// True if the next chunk's message can start: the stream has filled the buffer (send) or emptied
/// it (receive).
bool Channel::may_start() const {
  if (started_ - over_ >= chunks_.size()) return false;
  if (is_send_) return done() >= started_ + 1;
  if (chunks_[started_ - over_].in_pool != nullptr) return reached() >= started_ + 1;
  return done() >= started_ + 1 - std::min(started_ + 1, buffers);
}

Result Channel::carry(penstock_messenger_t* messenger, bool& moved) {
  while (may_start()) {
    penstock_request_t* request = nullptr;
    const std::uint64_t bytes = chunks_[started_ - over_].bytes;
    const auto status =
        is_send_ ? penstock_message_send(messenger, peer_, 0, place(started_), bytes, &request)
                 : penstock_message_receive(messenger, peer_, 0, place(started_), bytes, &request);
    if (status != PENSTOCK_OK) return outcome(status, is_send_ ? "ncclSend" : "ncclRecv");
    requests_.push_back(request);
    ++started_;
    moved = true;
  }
  while (!requests_.empty()) {
    penstock_request_info_t info{};
    const auto status = penstock_request_test(requests_.front(), &info);
    if (status != PENSTOCK_OK) return outcome(status, is_send_ ? "ncclSend" : "ncclRecv");
    if (info.done == 0) break;
    penstock_request_free(requests_.front());
    requests_.pop_front();
    if (const Result done = finish(info.bytes); done != success) return done;
    moved = true;
  }
  return success;
}

Result Channel::finish(std::uint64_t found) {
  const std::uint64_t wanted = chunks_.front().bytes;
  chunks_.pop_front();
  ++over_;
  if (!is_send_ && found != wanted)
    return failed(invalid_usage,
                  fmt::format("ncclRecv: rank {} has sent {} bytes where this rank receives {}: "
                              "both must name the same count and type",
                              peer_, found, wanted));
  go().store(is_send_ ? over_ + buffers : over_, std::memory_order_release);
  return success;
}

}  // namespace penstock::nccl
