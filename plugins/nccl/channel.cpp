#include "nccl/channel.hpp"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/numa.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

cuda::DevicePointer device_pointer(const void* data) {
  return reinterpret_cast<cuda::DevicePointer>(data);
}
template <class Pointed>
Pointed* pointer(cuda::DevicePointer at) {
  return reinterpret_cast<Pointed*>(at);
}

}  // namespace

Result Channel::make(std::shared_ptr<const gpu::Device> device, std::uint32_t peer, bool is_send,
                     std::uint64_t slot_bytes, std::uint64_t key,
                     std::unique_ptr<Channel>& channel) {
  channel.reset(new Channel(std::move(device), peer, is_send, slot_bytes, key));
  return channel->allocate();
}

Result Channel::take(const SlotRing& ring) {
  auto slots = gpu::Pinned::make(device_, ring.begin, SlotRing::slots * ring.slot_bytes);
  if (!slots) return outcome(unexpected(slots.error()));
  pinned_ring_ = std::move(*slots);
  ring_ = ring;
  return success;
}

Result Channel::checked(cuda::Status status, const char* what) const {
  return outcome(device_->driver().check(status, what));
}

Result Channel::allocate() {
  void* const memory =
      mmap(nullptr, memory_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failed(system_error, "no memory for a message's chunks");
  memory_ = static_cast<std::byte*>(memory);
  (void)base::keep_on_node(memory, memory_bytes(), device_->numa_node());
  auto pinned = gpu::Pinned::make(device_, memory_, memory_bytes());
  if (!pinned) return outcome(unexpected(pinned.error()));
  pinned_ = std::move(*pinned);
  go().store(is_send_ ? buffers() : 0, std::memory_order_release);
  const gpu::Device::Scope scope(*device_);
  const Result stream =
      checked(device_->driver().stream_create(&stream_, cuda::stream_non_blocking), "a stream");
  if (stream != success) return stream;
  if (const auto opened = outstanding_.open(); !opened) return outcome(opened);
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
  for (const Requests& requests : requests_) {
    penstock_request_free(requests.chunk);
    penstock_request_free(requests.free);
  }
  for (const Free& freed : free_) penstock_request_free(freed.note);
  pinned_ring_.reset();
  pinned_.reset();
  if (memory_ != nullptr) munmap(memory_, memory_bytes());
}

Result Channel::begin_after(Stream user) {
  return counted(
      outcome(gpu::go_after(device_->driver(), event_, user, stream_, "a message's begin")), 1);
}

Result Channel::end_before(Stream user) {
  // The process may end when its stream has: then the other rank has all that it needs. Short
  // chunks have left as soon as they are in the pool, long ones when they are received.
  const std::uint64_t unsent = std::exchange(counts_.last_sent, 0);
  Result waits = success;
  if (unsent != 0) waits = wait_for(go_word, unsent + buffers());
  if (has_slots() && !is_send_) waits = wait_for(told_word, counts_.enqueued);
  if (waits != success) return waits;
  return counted(
      outcome(gpu::go_after(device_->driver(), event_, stream_, user, "a message's end")),
      operations_of_end);
}

Result Channel::wait_for(std::size_t which, std::uint64_t number) {
  return checked(
      device_->driver().wait_value(stream_, pinned_->at(word(which)), number, cuda::wait_value_geq),
      "a wait");
}

Result Channel::reach(std::uint64_t count) {
  if (is_send_) return success;
  return counted(
      checked(device_->driver().write_value(stream_, pinned_->at(word(reached_word)),
                                            counts_.enqueued + count, cuda::write_value_default),
              "a word that tells of a message's memory"),
      1);
}

/// Counts operations that the stream has got, if it has.
Result Channel::counted(Result result, std::uint64_t operations) {
  return result == success ? outcome(outstanding_.count(stream_, operations)) : result;
}

Result Channel::has_room_for(std::uint64_t operations, bool& room) {
  const auto found = outstanding_.has_room(operations);
  room = found && *found;
  return found ? success : outcome(unexpected(found.error()));
}

Result Channel::check() const {
  const cuda::Status status = device_->driver().event_query(event_);
  return status == cuda::not_ready ? success : checked(status, "a message");
}

gpu::ChunkMove Channel::move_of(const Chunk& chunk) const {
  const cuda::DevicePointer buffered = in_slot(chunk)
                                           ? pinned_ring_->at(ring_->slot(counts_.enqueued))
                                           : pinned_->at(buffer(counts_.enqueued));
  if (is_send_) return {pointer<void>(buffered), chunk.data, chunk.bytes};
  return {chunk.data, pointer<void>(buffered), chunk.bytes};
}

Result Channel::launch(std::deque<Chunk>& chunks) {
  constexpr std::uint64_t entries = gpu::ChunkRun::entries;
  const auto kernel = device_->chunks_kernel();
  std::uint64_t free = entries - (counts_.enqueued - std::min(done(), counts_.enqueued));
  if (!has_slots() || !kernel || free < std::min<std::uint64_t>(chunks.size(), entries / 2))
    return success;
  gpu::ChunkMove* const ring = ring_of_launches();
  gpu::ChunkRun run{
      .ring = pointer<const gpu::ChunkMove>(pinned_->at(reinterpret_cast<const std::byte*>(ring))),
      .begin = counts_.enqueued,
      .go = pointer<const std::uint64_t>(pinned_->at(word(go_word))),
      .done = pointer<std::uint64_t>(pinned_->at(word(done_word)))};
  for (; free != 0 && !chunks.empty(); --free) {
    ring[counts_.enqueued % entries] = move_of(chunks.front());
    chunks.pop_front();
    run.end = ++counts_.enqueued;
  }
  if (is_send_) counts_.last_sent = counts_.enqueued;
  return counted(
      outcome(device_->launch(*kernel, 1, gpu::fused_threads, &run, stream_, "a message's chunks")),
      1);
}

Result Channel::enqueue(const Chunk& chunk) {
  const cuda::Driver& driver = device_->driver();
  const std::uint64_t number = counts_.enqueued + 1;
  const bool from_pool = is_send_ && in_place(chunk);
  if (is_send_) counts_.last_sent = number;
  Result result = from_pool ? success : wait_for(go_word, number);
  if (result == success && !in_place(chunk)) {
    const gpu::ChunkMove move = move_of(chunk);
    result = checked(
        driver.copy(device_pointer(move.to), device_pointer(move.from), move.bytes, stream_),
        "a message's copy");
  }
  if (result != success) return result;
  ++counts_.enqueued;
  return counted(checked(driver.write_value(stream_, pinned_->at(word(done_word)), number,
                                            cuda::write_value_default),
                         "a word that tells of a message"),
                 operations_of_chunk);
}

/// True if the next chunk's message can start: the stream has filled the buffer (send) or emptied
/// it (receive).
bool Channel::may_start() const {
  if (counts_.started - counts_.over >= chunks_.size()) return false;
  if (is_send_) return done() >= counts_.started + 1;
  if (in_place(chunks_[counts_.started - counts_.over])) return reached() >= counts_.started + 1;
  return done() >= counts_.started + 1 - std::min(counts_.started + 1, buffers());
}

Result Channel::start(penstock_messenger_t* messenger) {
  const Chunk& chunk = chunks_[counts_.started - counts_.over];
  Note& note = notes_[counts_.started % notes_.size()];
  const bool slot = in_slot(chunk);
  void* const place = slot              ? &note
                      : in_place(chunk) ? chunk.in_pool
                                        : static_cast<void*>(buffer(counts_.started));
  const std::uint64_t bytes = slot ? sizeof note : chunk.bytes;
  if (is_send_ && slot) {
    note = {chunk.bytes, chunk.bytes ^ key_};
    if (const Result published = ring_->publish(counts_.started, chunk.bytes); published != success)
      return published;
  }
  Requests begun;
  auto status = is_send_
                    ? penstock_message_send(messenger, peer_, forth, place, bytes, &begun.chunk)
                    : penstock_message_receive(messenger, peer_, forth, place, bytes, &begun.chunk);
  if (status == PENSTOCK_OK && is_send_ && slot)
    status =
        penstock_message_receive(messenger, peer_, back, &freed_[counts_.started % freed_.size()],
                                 sizeof freed_[0], &begun.free);
  requests_.push_back(begun);
  ++counts_.started;
  return message_outcome(status, is_send_, peer_);
}

/// Whether the request, if there is one, is done. `bytes`: of its message.
Result Channel::is_done(const penstock_request_t* request, bool& done, std::uint64_t& bytes) const {
  done = true;
  if (request == nullptr) return success;
  penstock_request_info_t info{};
  const auto status = penstock_request_test(request, &info);
  done = info.done != 0;
  bytes = info.bytes;
  return message_outcome(status, is_send_, peer_);
}

Result Channel::carry(penstock_messenger_t* messenger, const std::function<Result()>& meet,
                      bool& moved) {
  while (may_start()) {
    if (is_send_)
      if (const Result met = meet(); met != success) return met;
    if (const Result started = start(messenger); started != success) return started;
    moved = true;
  }
  while (!requests_.empty()) {
    bool sent = false, free = false;
    std::uint64_t found = 0, unused = 0;
    Result asked = is_done(requests_.front().chunk, sent, found);
    if (asked == success) asked = is_done(requests_.front().free, free, unused);
    if (asked != success) return asked;
    if (!sent || !free) break;
    penstock_request_free(requests_.front().chunk);
    penstock_request_free(requests_.front().free);
    requests_.pop_front();
    if (const Result done = finish(found); done != success) return done;
    moved = true;
  }
  return is_send_ ? success : give_back(messenger, meet, moved);
}

/// `found`: the bytes of the message that was received.
Result Channel::finish(std::uint64_t found) {
  const Chunk chunk = chunks_.front();
  chunks_.pop_front();
  const bool slot = in_slot(chunk);
  if (has_slots() && found == sizeof(Note)) {  // a note may come where a short chunk is received
    Note note;
    std::memcpy(
        &note,
        slot ? static_cast<void*>(&notes_[counts_.over % notes_.size()]) : buffer(counts_.over),
        sizeof note);
    if (note.mark == (note.bytes ^ key_)) found = note.bytes;
  }
  ++counts_.over;
  if (!is_send_ && found != chunk.bytes) return other_length(peer_, found, chunk.bytes);
  if (!is_send_ && slot)
    if (const Result seen = ring_->observe(counts_.over - 1, chunk.bytes); seen != success)
      return seen;
  if (!is_send_ && has_slots()) free_.push_back({.in_slot = slot});
  go().store(is_send_ ? counts_.over + buffers() : counts_.over, std::memory_order_release);
  return success;
}

/// Tells the sender of slots that the stream has emptied. A sender that has given up may have
/// filled them again before.
Result Channel::give_back(penstock_messenger_t* messenger, const std::function<Result()>& meet,
                          bool& moved) {
  while (!free_.empty()) {
    Free& first = free_.front();
    if (first.note == nullptr && done() <= counts_.given_back) return success;
    if (first.in_slot && first.note == nullptr) {
      if (ring_->has_failed()) return given_up(false, peer_);
      if (const Result met = meet(); met != success) return met;
      const auto status = penstock_message_send(messenger, peer_, back, &counts_.given_back,
                                                sizeof counts_.given_back, &first.note);
      if (status != PENSTOCK_OK) return message_outcome(status, false, peer_);
    }
    bool is_told = false;
    std::uint64_t unused = 0;
    if (const Result asked = is_done(first.note, is_told, unused); asked != success) return asked;
    if (!is_told) return success;
    penstock_request_free(first.note);
    free_.pop_front();
    told().store(++counts_.given_back, std::memory_order_release);
    moved = true;
  }
  return success;
}

}  // namespace penstock::nccl
