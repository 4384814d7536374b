#include "rma_origin.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "base/format.hpp"
#include "base/log.hpp"
#include "ep.hpp"
#include "lib.hpp"
#include "transport/iov.hpp"

namespace penstock::ofi {

namespace {

Error no_regions() {
  return {ErrorCode::not_found,
          "the peer has registered no memory for remote access (fi_mr_reg with FI_REMOTE_READ or "
          "FI_REMOTE_WRITE)"};
}

bool allows(const rma::Region& region, std::uint64_t address, std::uint64_t bytes,
            rma::Access access) {
  return (region.access & access) != 0 && region.holds(address, bytes);
}

/// The errno for an operation on remote memory that can never succeed.
int rma_errno(const Error& error) {
  switch (error.code) {
    case ErrorCode::not_found:
      return FI_EKEYREJECTED;
    case ErrorCode::invalid_argument:
    case ErrorCode::permission:
      return FI_EACCES;
    default:
      return -errno_of(error);
  }
}

}  // namespace

RmaOrigin::~RmaOrigin() {
  while (Part* part = live_.pop_front()) std::free(part->copy);
}

// ---- regions of peers --------------------------------------------------------------------------

/// The peer's regions; null if it has none, and `error` says why.
rma::PeerRegions* RmaOrigin::regions_of(Peer peer, Error* error) {
  if (peer < regions_.size() && regions_[peer] != nullptr) return regions_[peer].get();
  const auto place = ep_.transport()->user_word_of(peer);
  if (!place || *place == 0) {
    *error = place ? no_regions() : place.error();
    return nullptr;
  }
  if (regions_.size() <= peer) regions_.resize(peer + 1);
  regions_[peer] = std::make_unique<rma::PeerRegions>(*ep_.domain->session->pool, *place);
  return regions_[peer].get();
}

/// Finds the peer's region that contains the range. A cached entry suffices if it allows the
/// access: the code that copies checks again.
Result<rma::Region> RmaOrigin::locate(Peer peer, const Stretch& stretch, rma::Access access) {
  Error error;
  rma::PeerRegions* regions = regions_of(peer, &error);
  if (regions == nullptr) return unexpected(error);
  if (const rma::Region* known = regions->remembered(stretch.key))
    if (allows(*known, stretch.address, stretch.bytes, access)) return *known;
  auto region = regions->find(stretch.key);
  if (!region || allows(*region, stretch.address, stretch.bytes, access)) return region;
  if ((region->access & access) == 0)
    return penstock::fail(ErrorCode::permission,
                          "memory region {:#x} of the peer is not registered for remote {}",
                          stretch.key, access == rma::remote_read ? "reading" : "writing");
  return penstock::fail(ErrorCode::invalid_argument,
                        "{} bytes at {:#x} do not lie in memory region {:#x} of the peer, which "
                        "has {} bytes from {:#x} on",
                        stretch.bytes, stretch.address, stretch.key, region->bytes, region->base);
}

/// The fast path: one range of pool memory in a known region, without a completion. False if it
/// copied nothing. Does not order a write.
bool RmaOrigin::copied_at_once(Peer peer, const RmaCall& call, bool in) {
  if (call.iov_count != 1 || call.remote_count != 1 || (call.flags & FI_REMOTE_CQ_DATA) != 0 ||
      peer >= regions_.size() || regions_[peer] == nullptr ||
      call.iov[0].iov_len != call.remote[0].len)
    return false;
  const Stretch stretch{static_cast<std::byte*>(call.iov[0].iov_base), call.remote[0].addr,
                        call.remote[0].key, call.remote[0].len};
  const rma::Region* region = regions_[peer]->remembered(stretch.key);
  const rma::Access access = in ? rma::remote_read : rma::remote_write;
  if (region == nullptr || !region->in_pool() || (region->access & rma::wants_notice) != 0 ||
      !allows(*region, stretch.address, stretch.bytes, access))
    return false;
  if (in) return copy(peer, stretch, in).has_value();
  return regions_[peer]
      ->begin_put(stretch.key, stretch.address, stretch.local, stretch.bytes)
      .has_value();
}

/// Copies without the peer's help. `in`: from the peer's memory to ours.
Result<void> RmaOrigin::copy(Peer peer, const Stretch& stretch, bool in) {
  rma::PeerRegions& regions = *regions_[peer];
  return in ? regions.get(stretch.key, stretch.address, stretch.local, stretch.bytes)
            : regions.put(stretch.key, stretch.address, stretch.local, stretch.bytes);
}

// ---- operations and their parts ----------------------------------------------------------------

RmaOrigin::Operation* RmaOrigin::begin(std::uint64_t flags, void* context, bool report) {
  Operation* operation = operations_.take();
  if (operation == nullptr) return nullptr;
  const bool reads = (flags & FI_READ) != 0;
  *operation = {context, flags, reads ? ep_.counters.read : ep_.counters.write, report, 1, 0, 0};
  return operation;
}

void RmaOrigin::part_ended(Operation* operation, int error, int detail) {
  if (error != 0 && operation->error == 0) {
    operation->error = error;
    operation->detail = detail;
  }
  if (--operation->parts != 0) return;
  const Operation done = *operation;
  operations_.give(operation);
  if (done.error != 0) {
    CompletionError failure;
    failure.what.context = done.context;
    failure.what.flags = done.flags;
    failure.error = done.error;
    failure.detail = done.detail;
    if (done.counter != nullptr) done.counter->count_error();
    if (ep_.tx_cq != nullptr) ep_.tx_cq->push_error(failure);
    return;
  }
  ep_.complete_rma(done.flags, done.counter, done.context, done.report);
}

/// Fails one part of the operation for which no message was sent.
void RmaOrigin::fail(Operation* operation, const Error& error) {
  ++operation->parts;
  part_ended(operation, rma_errno(error), remember_text(error.message));
}

RmaOrigin::Part* RmaOrigin::make_part(Operation* operation, Peer peer, const Header& header) {
  Part* part = parts_.take();
  if (part == nullptr) return nullptr;
  part->origin = this;
  part->operation = operation;
  part->peer = peer;
  part->sent = false;
  part->answered = true;
  part->receive_buffer_count = 0;
  part->receive_buffer_bytes = 0;
  part->copy = nullptr;
  part->header = header;
  live_.push_back(part);
  ++operation->parts;
  return part;
}

/// Allocates a payload that the part owns; null if out of memory.
std::byte* RmaOrigin::payload(Part* part, std::uint64_t bytes) {
  std::byte* at = part->small;
  if (bytes > sizeof(part->small)) {
    part->copy = std::malloc(bytes);
    at = static_cast<std::byte*>(part->copy);
    if (at == nullptr) return nullptr;
  }
  part->iov[0] = {at, bytes};
  part->iov_count = 1;
  part->header.bytes = bytes;
  return at;
}

/// Registers a part that awaits an answer. Returns the id that the answer will carry.
std::uint64_t RmaOrigin::await_answer(Part* part) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(posted_.size()));
    posted_.emplace_back();
  }
  part->slot = free_slots_.back();
  free_slots_.pop_back();
  part->answered = false;
  PostedReceive& entry = posted_[part->slot];
  entry.part = part;
  return std::uint64_t{++entry.uses} << 32 | part->slot;
}

RmaOrigin::Part* RmaOrigin::posted(Peer from, std::uint64_t id) const {
  const auto slot = static_cast<std::uint32_t>(id);
  if (slot >= posted_.size() || posted_[slot].uses != id >> 32) return nullptr;
  Part* part = posted_[slot].part;
  return part != nullptr && part->peer == from ? part : nullptr;
}

void RmaOrigin::answer(Part* part, int error, int detail) {
  posted_[part->slot].part = nullptr;
  free_slots_.push_back(part->slot);
  part->answered = true;
  if (error != 0 && part->operation->error == 0) {
    part->operation->error = error;
    part->operation->detail = detail;
  }
  if (part->sent) end(part, 0, 0);
}

void RmaOrigin::post(Part* part, bool notify_delivered) {
  part->notify_delivered = notify_delivered;
  auto sent = ep_.transport()->send(part->peer, part);
  if (!sent) {
    if (!part->answered) answer(part, 0, 0);
    return end(part, rma_errno(sent.error()), remember_text(sent.error().message));
  }
  if (*sent) this->sent(part);
}

void RmaOrigin::end(Part* part, int error, int detail) {
  Operation* operation = part->operation;
  live_.remove(part);
  std::free(part->copy);
  parts_.give(part);
  part_ended(operation, error, detail);
}

void RmaOrigin::sent(transport::SendOp* op) {
  auto* part = static_cast<Part*>(op);
  part->sent = true;
  if (part->answered) end(part, 0, 0);
}

void RmaOrigin::send_failed(transport::SendOp* op, int error, int detail) {
  auto* part = static_cast<Part*>(op);
  if (!part->answered) answer(part, 0, 0);  // does not end an unsent part
  end(part, error, detail);
}

void RmaOrigin::peer_dead(Peer peer, int error, int detail) {
  for (PostedReceive& entry : posted_) {
    // The transport fails the parts that were not sent.
    if (entry.part != nullptr && entry.part->peer == peer && entry.part->sent)
      answer(entry.part, error, detail);
  }
}

/// Polls rarely: each poll is a device access that hardly ever finds an error.
void RmaOrigin::check_for_errors() {
  constexpr std::uint32_t calls_a_look = 1u << 12;
  if (++looks_ % calls_a_look != 0) return;
  Peer looked_at = any_peer;
  for (std::size_t i = 0; i < posted_.size(); ++i) {
    const Part* part = posted_[i].part;
    if (part == nullptr || !part->sent || part->peer == looked_at) continue;
    looked_at = part->peer;
    const auto error = static_cast<int>(ep_.transport()->take_error(looked_at));
    if (error == 0) continue;
    const std::string text = fmt::format(
        "a peer cannot answer: {}; its log says what was needed and found", fi_strerror(error));
    base::log(base::Level::error, "{}", text);
    peer_dead(looked_at, error, remember_text(text));
  }
}

// ---- answers -----------------------------------------------------------------------------------

void RmaOrigin::reply(Peer from, const Header& header, const void* payload) {
  const ReceiveBuffer receive_buffer = begin_reply(from, header);
  if (receive_buffer.arrival == nullptr) return;
  transport::iov_scatter(receive_buffer.iov, receive_buffer.iov_count, 0,
                         static_cast<const std::byte*>(payload), header.bytes);
  receive_buffer.arrival->arrived();
}

ReceiveBuffer RmaOrigin::begin_reply(Peer from, const Header& header) {
  Part* part = posted(from, header.tag);
  if (part == nullptr) return {};
  posted_[part->slot].part = nullptr;  // a second answer finds no request
  part->reply_bytes = header.bytes;
  part->reply_error = static_cast<int>(header.data & 0xffff);
  return {.iov = part->receive_buffer, .iov_count = part->receive_buffer_count, .arrival = part};
}

void RmaOrigin::replied(Part* part) {
  const bool complete = part->reply_error != 0 || part->reply_bytes == part->receive_buffer_bytes;
  answer(part, complete ? part->reply_error : FI_EIO, 0);
}

void RmaOrigin::Part::failed(const Error& error) {
  origin->answer(this, -errno_of(error), remember_text(error.message));
}

/// Reports a refusal as a separate error: the operation may have completed long ago.
void RmaOrigin::refused(Peer, const Header& header, int error) {
  const std::string text =
      fmt::format("a peer refused to write at {:#x} in its memory region {:#x}: {}", header.tag,
                  header.data, fi_strerror(error));
  base::log(base::Level::error, "{}", text);
  CompletionError failure;
  failure.what.flags = FI_RMA | FI_WRITE;
  failure.error = error;
  failure.detail = remember_text(text);
  if (ep_.counters.write != nullptr) ep_.counters.write->count_error();
  if (ep_.tx_cq != nullptr) ep_.tx_cq->push_error(failure);
}

// ---- writing and reading -----------------------------------------------------------------------

template <class Do>
void RmaOrigin::each_stretch(const RmaCall& call, Do&& with) {
  std::size_t i = 0, j = 0;
  std::uint64_t local_done = 0, remote_done = 0;
  while (i < call.iov_count && j < call.remote_count) {
    const iovec& local = call.iov[i];
    const fi_rma_iov& remote = call.remote[j];
    const std::uint64_t bytes = std::min(local.iov_len - local_done, remote.len - remote_done);
    // An operation of zero bytes is sent too: the peer must still check the region.
    if (bytes != 0 || (call.iov_count == 1 && call.remote_count == 1))
      with(Stretch{static_cast<std::byte*>(local.iov_base) + local_done, remote.addr + remote_done,
                   remote.key, bytes});
    local_done += bytes;
    remote_done += bytes;
    if (local_done == local.iov_len) ++i, local_done = 0;
    if (remote_done == remote.len) ++j, remote_done = 0;
  }
}

void RmaOrigin::begin_stretch(Operation* operation, Peer peer, const RmaCall& call,
                              const Stretch& stretch, bool in) {
  Header header{stretch.address, stretch.key, stretch.bytes,
                kind_of(in ? Service::read : Service::write)};
  Part* part = make_part(operation, peer, header);
  if (part == nullptr) return fail(operation, {ErrorCode::internal, "out of memory"});
  if (in) {
    part->receive_buffer[0] = {stretch.local, stretch.bytes};
    part->receive_buffer_count = 1;
    part->receive_buffer_bytes = stretch.bytes;
    const ReadRequest request{await_answer(part), stretch.bytes};
    std::memcpy(payload(part, sizeof request), &request, sizeof request);
    return post(part, false);
  }
  part->iov[0] = {stretch.local, stretch.bytes};
  part->iov_count = 1;
  if ((call.flags & FI_INJECT) != 0) {
    std::byte* copy = payload(part, stretch.bytes);
    if (copy == nullptr) return end(part, FI_ENOMEM, 0);
    if (stretch.bytes != 0) std::memcpy(copy, stretch.local, stretch.bytes);
  }
  post(part, (call.flags & delivery_flags) != 0);
}

/// Sends the owner a report of direct writes or reads. It arrives after them, since the channel
/// keeps the order.
void RmaOrigin::send_notice(Operation* operation, Peer peer, const RmaCall& call, bool in,
                            bool direct) {
  Header header{0, call.data, 0, kind_of(Service::report)};
  if ((call.flags & FI_REMOTE_CQ_DATA) != 0) header.kind |= kind_cq_data;
  Part* part = make_part(operation, peer, header);
  if (part == nullptr) return fail(operation, {ErrorCode::internal, "out of memory"});
  WriteReport report{call.remote[0].key, call.remote[0].addr, 0, 0};
  for (std::size_t i = 0; i < call.remote_count; ++i) report.bytes += call.remote[i].len;
  report.flags = (direct ? WriteReport::direct : 0) | (in ? WriteReport::read : 0);
  std::memcpy(payload(part, sizeof report), &report, sizeof report);
  // The bytes have arrived; only the completion data must still reach the owner.
  post(part, (header.kind & kind_cq_data) != 0 && (call.flags & delivery_flags) != 0);
}

ssize_t RmaOrigin::run(const RmaCall& call, bool in) {
  if (call.iov_count > transport::max_iov || call.remote_count > transport::max_iov)
    return -FI_EINVAL;
  Peer peer;
  if (const int failed = ep_.peer_for(call.peer, &peer)) return failed;
  const std::uint64_t flags = FI_RMA | (in ? FI_READ : FI_WRITE);
  if (copied_at_once(peer, call, in)) {
    // Complete the bookkeeping while the bytes are in flight, unless other threads could see it.
    const bool early = !in && !ep_.domain->turns.shared();
    if (!in && !early) regions_[peer]->store_fence();
    ep_.complete_rma(flags, in ? ep_.counters.read : ep_.counters.write, call.context, call.report);
    if (early) regions_[peer]->store_fence();
    return 0;
  }
  Operation* operation = begin(flags, call.context, call.report);
  if (operation == nullptr) return -FI_ENOMEM;
  bool direct = true, wants_notice = (call.flags & FI_REMOTE_CQ_DATA) != 0;
  each_stretch(call, [&](const Stretch& stretch) {
    auto region = locate(peer, stretch, in ? rma::remote_read : rma::remote_write);
    if (!region) return fail(operation, region.error());
    if (!region->in_pool()) {
      direct = false;
      return begin_stretch(operation, peer, call, stretch, in);
    }
    wants_notice |= (region->access & rma::wants_notice) != 0;
    if (auto copied = copy(peer, stretch, in); !copied) fail(operation, copied.error());
  });
  if (wants_notice && operation->error == 0 && (direct || !in))
    send_notice(operation, peer, call, in, direct);
  part_ended(operation, 0, 0);
  return 0;
}

ssize_t RmaOrigin::write(const RmaCall& call) {
  return run(call, false);
}

ssize_t RmaOrigin::read(const RmaCall& call) {
  return run(call, true);
}

}  // namespace penstock::ofi
