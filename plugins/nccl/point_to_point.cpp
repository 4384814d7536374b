#include "nccl/point_to_point.hpp"

#include <algorithm>
#include <chrono>

#include "base/format.hpp"
#include "base/service_thread.hpp"
#include "nccl/channel.hpp"
#include "nccl/outcome.hpp"
#include "nccl/pool_memory.hpp"

namespace penstock::nccl {

namespace {

constexpr int looks_before_sleep = 4000;
constexpr std::chrono::microseconds sleep_time{50};
constexpr std::chrono::milliseconds check_interval{50};

}  // namespace

PointToPoint::PointToPoint(penstock_messenger_t* messenger, std::uint32_t self,
                           std::vector<penstock_address_t> addresses,
                           const std::vector<std::uint64_t>& tokens,
                           std::shared_ptr<const gpu::Device> device,
                           std::unique_ptr<MessageSlots> slots)
    : messenger_(messenger),
      self_(self),
      addresses_(std::move(addresses)),
      known_(tokens.size()),
      device_(std::move(device)),
      slots_(std::move(slots)) {
  for (std::uint32_t rank = 0; rank < tokens.size(); ++rank)
    (void)penstock_messenger_expect(messenger_, rank, tokens[rank]);
  if (device_ != nullptr)
    thread_ = base::start_service_thread(
        "penstock-p2p", [this] { run(); }, device_->numa_node());
}

PointToPoint::~PointToPoint() {
  drain();
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  penstock_messenger_close(messenger_);  // before the requests it may still use are freed
  for (penstock_request_t* const request : abandoned_) penstock_request_free(request);
}

std::optional<std::string> PointToPoint::error() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return error_;
}

void PointToPoint::stop(const std::string& why) {
  const std::lock_guard<std::mutex> guard(mutex_);
  fail_with(why);
  changed_.notify_all();
}

/// The others learn of it before the streams run on, into slots that are not free. The caller holds
/// the mutex.
void PointToPoint::fail_with(const std::string& why) {
  if (!error_) {
    error_ = why;
    slots_->fail();
  }
  for (const auto& [name, channel] : channels_) channel->open();
}

bool PointToPoint::is_active() const {
  return !error_ && std::any_of(channels_.begin(), channels_.end(),
                                [](const auto& entry) { return !entry.second->is_idle(); });
}

void PointToPoint::drain() {
  auto check = std::chrono::steady_clock::now() + check_interval;
  std::unique_lock<std::mutex> lock(mutex_);
  while (is_active()) {
    lock.unlock();
    std::this_thread::sleep_for(sleep_time);
    if (const auto now = std::chrono::steady_clock::now(); now > check) {
      check = now + check_interval;
      check_gpu();
    }
    lock.lock();
  }
}

/// Streams of a GPU that has failed never tell that they are done. The thread that carries messages
/// cannot ask: the driver may let it wait.
void PointToPoint::check_gpu() {
  const auto turn = try_turn();  // nobody changes channels_
  if (!turn) return;
  const gpu::Device::Scope scope(*device_);
  for (const auto& [name, channel] : channels_)
    if (channel->check() != success) return stop(last_error());
}

Result PointToPoint::carry(const std::vector<Transfer>& transfers) {
  if (const auto words = error()) return failed(remote_error, *words);
  if (const Result copied = copy_within(transfers); copied != success) return copied;
  std::vector<Transfer> others;
  for (const Transfer& transfer : transfers)
    if (transfer.peer != self_ && transfer.bytes != 0) others.push_back(transfer);
  return others.empty() ? success : carry_by_host(others);
}

Result PointToPoint::copy_own(const std::vector<Transfer>& transfers) {
  if (const auto words = error()) return failed(remote_error, *words);
  const Result refused = refuse_capture(transfers);
  return refused != success ? refused : copy_within(transfers);
}

/// The thread that carries messages would not be part of the graph.
Result PointToPoint::refuse_capture(const std::vector<Transfer>& transfers) {
  for (const Transfer& transfer : transfers) {
    const auto captures = gpu::is_capturing(device_->driver(), transfer.stream);
    if (!captures) return outcome(unexpected(captures.error()));
    if (*captures)
      return failed(invalid_usage,
                    "ncclSend or ncclRecv: the stream captures a graph, and a message through the "
                    "pool cannot be captured yet: enqueue it outside the graph");
  }
  return success;
}

/// Copies on the receive's stream, after the work enqueued on the send's stream so far. The send's
/// stream continues after the copy.
Result PointToPoint::copy_after_send(const Transfer& send, const Transfer& receive) {
  constexpr const char* what = "a message to this rank itself";
  const cuda::Driver& driver = device_->driver();
  const gpu::Device::Scope scope(*device_);
  cuda::Event event = nullptr;
  auto done = driver.check(driver.event_create(&event, cuda::event_disable_timing), what);
  if (done) done = gpu::go_after(driver, event, send.stream, receive.stream, what);
  if (done)
    done = driver.check(
        driver.copy(reinterpret_cast<cuda::DevicePointer>(receive.data),
                    reinterpret_cast<cuda::DevicePointer>(send.data), send.bytes, receive.stream),
        what);
  if (done) done = gpu::go_after(driver, event, receive.stream, send.stream, what);
  if (event != nullptr) (void)driver.event_destroy(event);
  return outcome(done);
}

/// Copies the messages of this rank to itself, in order.
Result PointToPoint::copy_within(const std::vector<Transfer>& transfers) {
  std::vector<const Transfer*> sends, receives;
  for (const Transfer& transfer : transfers)
    if (transfer.peer == self_) (transfer.is_send ? sends : receives).push_back(&transfer);
  if (sends.size() != receives.size())
    return failed(invalid_usage,
                  fmt::format("a rank sends {} messages to itself and receives {} in a group: they "
                              "must be the same group's",
                              sends.size(), receives.size()));
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (sends[i]->bytes != receives[i]->bytes)
      return failed(invalid_usage, fmt::format("a rank sends {} bytes to itself and receives {}",
                                               sends[i]->bytes, receives[i]->bytes));
    if (sends[i]->bytes == 0) continue;
    if (device_ == nullptr) {
      std::copy_n(sends[i]->data, sends[i]->bytes, receives[i]->data);
      continue;
    }
    if (const Result copied = copy_after_send(*sends[i], *receives[i]); copied != success)
      return copied;
  }
  return success;
}

Result PointToPoint::meet(std::uint32_t peer) {
  if (known_[peer]) return success;
  known_[peer] = true;
  return message_outcome(penstock_messenger_meet(messenger_, peer, &addresses_[peer]), true, peer);
}

/// Of a rank without a GPU: a peer with one cuts its messages into chunks.
std::vector<Transfer> PointToPoint::pieces_of(const std::vector<Transfer>& transfers) const {
  std::vector<Transfer> pieces;
  for (const Transfer& t : transfers) {
    const std::uint64_t longest = slots_->has_gpu(t.peer) ? Channel::longest_staged : t.bytes;
    for (std::uint64_t at = 0; at < t.bytes; at += longest) {
      pieces.push_back(t);
      pieces.back().data += at;
      pieces.back().bytes = std::min(longest, t.bytes - at);
    }
  }
  return pieces;
}

/// Without a GPU: this thread carries its messages until all are done. Between two polls it lets
/// another thread carry its own.
Result PointToPoint::carry_by_host(const std::vector<Transfer>& messages) {
  const std::vector<Transfer> transfers = pieces_of(messages);
  std::unique_lock<std::mutex> turn(turn_);
  std::vector<penstock_request_t*> requests;
  Result result = success;
  for (const Transfer& t : transfers) {
    penstock_request_t* request = nullptr;
    if (t.is_send) result = meet(t.peer);
    if (result == success)
      result = message_outcome(
          t.is_send ? penstock_message_send(messenger_, t.peer, 0, t.data, t.bytes, &request)
                    : penstock_message_receive(messenger_, t.peer, 0, t.data, t.bytes, &request),
          t.is_send, t.peer);
    if (result != success) break;
    requests.push_back(request);
  }
  for (std::size_t i = 0; i < requests.size() && result == success;) {
    penstock_request_info_t info{};
    result = message_outcome(penstock_request_test(requests[i], &info), transfers[i].is_send,
                             transfers[i].peer);
    if (info.done != 0) {
      const Transfer& t = transfers[i++];
      if (result == success && !t.is_send && info.bytes != t.bytes)
        result = other_length(t.peer, info.bytes, t.bytes);
      continue;
    }
    const bool moved = penstock_messenger_progress(messenger_) != 0;
    if (!moved) {
      turn.unlock();
      std::this_thread::yield();
      turn.lock();
    }
    if (const auto words = error()) result = failed(remote_error, *words);
  }
  if (result != success) {
    stop(last_error());
    abandoned_.insert(abandoned_.end(), requests.begin(), requests.end());
    return result;
  }
  for (penstock_request_t* const request : requests) penstock_request_free(request);
  return success;
}

/// Without the turn nobody changes channels_, so mutex_ is held only to add to them.
Result PointToPoint::prepare(const Transfer& transfer, Channel*& channel) {
  const std::pair name{transfer.peer, transfer.is_send};
  if (!channels_.contains(name)) {
    std::unique_ptr<Channel> made;
    const std::uint64_t slot_bytes = transfer.is_send ? slots_->slot_bytes(self_, transfer.peer)
                                                      : slots_->slot_bytes(transfer.peer, self_);
    const Result result =
        Channel::make(device_, transfer.peer, transfer.is_send, slot_bytes, slots_->key(), made);
    if (result != success) return result;
    const std::lock_guard<std::mutex> guard(mutex_);
    // A channel made after stop() would never be released.
    if (error_) return failed(remote_error, *error_);
    channels_[name] = std::move(made);
  }
  channel = channels_.at(name).get();
  if (!channel->lacks_slots(transfer.bytes)) return success;
  SlotRing ring;
  const Result found = slots_->find(transfer.peer, transfer.is_send, ring);
  return found == success ? channel->take(ring) : found;
}

Result PointToPoint::announce(const std::map<Channel*, std::deque<ChannelChunk>>& parts) {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (error_) return failed(remote_error, *error_);
    for (const auto& [channel, chunks] : parts)
      for (const ChannelChunk& chunk : chunks) channel->announce(chunk);
  }
  changed_.notify_all();
  return success;
}

void PointToPoint::run() {
  const gpu::Device::Scope scope(*device_);
  std::unique_lock<std::mutex> lock(mutex_);
  int idle_looks = 0;
  auto check = std::chrono::steady_clock::now();
  for (;;) {
    const bool active = is_active();
    if (ends_ && !active) return;
    if (!active) {
      changed_.wait(lock);
      continue;
    }
    idle_looks = look() ? 0 : idle_looks + 1;
    if (const auto now = std::chrono::steady_clock::now(); now > check) {
      check = now + check_interval;
      check_slots();
    }
    lock.unlock();
    if (idle_looks > looks_before_sleep)
      std::this_thread::sleep_for(sleep_time);
    else if (idle_looks > 0)
      std::this_thread::yield();
    lock.lock();
  }
}

/// Polls all channels. True if something moved. The caller holds the mutex.
bool PointToPoint::look() {
  bool moved = false;
  Result result = success;
  for (const auto& [name, channel] : channels_) {
    if (result != success || channel->is_idle()) continue;
    const auto [peer, is_send] = name;
    bool its_moved = false;
    result = channel->carry(
        messenger_, [this, to = peer] { return meet(to); }, its_moved);
    // It gives up before its endpoint leaves, which may be seen first.
    if (result == remote_error && slots_->has_given_up(peer)) result = given_up(is_send, peer);
    moved |= its_moved;
  }
  if (penstock_messenger_progress(messenger_) != 0) moved = true;
  if (result != success) fail_with(last_error());
  return moved;
}

/// A message that has left its sender is still received.
void PointToPoint::check_slots() {
  for (const auto& [name, channel] : channels_) {
    const auto [peer, is_send] = name;
    if (channel->is_idle() || !channel->waits_for_slot() || !slots_->has_given_up(peer)) continue;
    (void)given_up(is_send, peer);
    return fail_with(last_error());
  }
}

}  // namespace penstock::nccl
