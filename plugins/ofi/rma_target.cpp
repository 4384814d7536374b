#include "rma_target.hpp"

#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>

#include "atomics.hpp"
#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/log.hpp"
#include "ep.hpp"
#include "lib.hpp"
#include "transport/iov.hpp"

namespace penstock::ofi {

namespace {

std::byte* allocate(std::uint64_t bytes) {
  return static_cast<std::byte*>(std::malloc(bytes == 0 ? 1 : bytes));
}

}  // namespace

RmaTarget::~RmaTarget() {
  while (Request* arrival = arriving_.pop_front()) std::free(arrival->heap);
}

bool RmaTarget::uses(const Region& region) const {
  for (const Request* arrival = arriving_.head(); arrival != nullptr; arrival = arrival->next)
    if (arrival->region == &region) return true;
  return false;
}

/// The region that a request names; null if the access is not allowed, and `error` says why.
Region* RmaTarget::allowed(const Header& header, std::uint64_t bytes, std::uint32_t access,
                           int* error) const {
  Region* region = ep_.domain->regions.find(header.data);
  if (region == nullptr) {
    *error = FI_EKEYREJECTED;
    return nullptr;
  }
  if ((region->what.access & access) != access || !region->what.holds(header.tag, bytes)) {
    *error = FI_EACCES;
    return nullptr;
  }
  return region;
}

// ---- answers -----------------------------------------------------------------------------------

void RmaTarget::refuse(Peer to, const Header& request, int error) {
  const auto code = static_cast<std::uint64_t>(error);
  Answers::Answer* answer = ep_.engine.answers().make(
      {request.tag, request.data, 0, kind_of(Service::refusal)}, &code, sizeof code);
  answer != nullptr ? ep_.engine.answers().post(to, answer)
                    : ep_.transport()->send_error(to, FI_ENOMEM);
}

void RmaTarget::reply_error(Peer to, std::uint64_t id, int error) {
  Answers::Answer* answer = ep_.engine.answers().make(
      {id, static_cast<std::uint64_t>(error), 0, kind_of(Service::reply)}, nullptr, 0);
  answer != nullptr ? ep_.engine.answers().post(to, answer)
                    : ep_.transport()->send_error(to, FI_ENOMEM);
}

// ---- requests ----------------------------------------------------------------------------------

void RmaTarget::count_remote_write(Region* region) {
  if (ep_.counters.remote_write != nullptr) ep_.counters.remote_write->count();
  if (region != nullptr && region->remote_writes != nullptr) region->remote_writes->count();
}

/// Handles a write request. Memory in the pool is published, as peers do it, since they read it
/// past our caches.
void RmaTarget::written(Region& region, const Header& header, const void* payload) {
  if (region.what.in_pool()) {
    pool::Pool& pool = *ep_.domain->session->pool;
    rma::publish_range(pool.memory(),
                       pool.base() + region.what.offset + (header.tag - region.what.base), payload,
                       header.bytes);
    pool.memory().full_fence();
  } else {
    const Pieces pieces = locate(region, header.tag, header.bytes);
    transport::iov_scatter(pieces.iov, pieces.count, 0, static_cast<const std::byte*>(payload),
                           header.bytes);
  }
}

void RmaTarget::write(Peer from, const Header& header, const void* payload) {
  int error = 0;
  Region* region = allowed(header, header.bytes, rma::remote_write, &error);
  if (region == nullptr) return refuse(from, header, error);
  written(*region, header, payload);
  count_remote_write(region);
}

void RmaTarget::read(Peer from, const Header& header, const void* payload) {
  ReadRequest request;
  if (header.bytes != sizeof request) return refuse(from, header, FI_EINVAL);
  std::memcpy(&request, payload, sizeof request);
  int error = 0;
  Region* region = allowed(header, request.bytes, rma::remote_read, &error);
  if (region == nullptr) return reply_error(from, request.id, error);
  const Header reply{request.id, 0, request.bytes, kind_of(Service::reply)};
  Answers::Answer* answer =
      ep_.engine.answers().make(reply, nullptr, region->what.in_pool() ? request.bytes : 0);
  if (answer == nullptr) return reply_error(from, request.id, FI_ENOMEM);
  if (region->what.in_pool()) {
    pool::Pool& pool = *ep_.domain->session->pool;
    pool.memory().observe_bulk(answer->iov[0].iov_base,
                               pool.base() + region->what.offset + (header.tag - region->what.base),
                               request.bytes);
  } else {
    const Pieces pieces = locate(*region, header.tag, request.bytes);
    std::copy_n(pieces.iov, pieces.count, answer->iov);
    answer->iov_count = pieces.count;
    answer->header.bytes = request.bytes;
    answer->source = region;
  }
  ep_.engine.answers().post(from, answer);
  if (ep_.counters.remote_read != nullptr) ep_.counters.remote_read->count();
}

void RmaTarget::atomic(Peer from, const Header& header, const void* payload) {
  AtomicRequest request;
  if (header.bytes < sizeof request) return refuse(from, header, FI_EINVAL);
  std::memcpy(&request, payload, sizeof request);
  const auto form = static_cast<AtomicForm>(request.form);
  const bool fetches = form != AtomicForm::write;
  const auto deny = [&](int error) {
    return fetches ? reply_error(from, request.id, error) : refuse(from, header, error);
  };
  const std::size_t size = request.form > static_cast<std::uint8_t>(AtomicForm::compare)
                               ? 0
                               : atomic_size(form, request.op, request.type);
  if (size == 0 || request.count > max_atomic_bytes / size) return deny(FI_EINVAL);
  const std::uint64_t bytes = request.count * size;
  const std::uint64_t operand_bytes = atomic_takes_operand(request.op) ? bytes : 0;
  const std::uint64_t compare_bytes = form == AtomicForm::compare ? bytes : 0;
  if (header.bytes != sizeof request + operand_bytes + compare_bytes) return deny(FI_EINVAL);
  int error = 0;
  const std::uint32_t access = request.op == FI_ATOMIC_READ ? rma::remote_read : rma::remote_write;
  Region* region = allowed(header, bytes, access, &error);
  if (region == nullptr) return deny(error);
  const auto* operand = static_cast<const std::byte*>(payload) + sizeof request;
  const auto* compare = form == AtomicForm::compare ? operand + operand_bytes : nullptr;
  // Without memory for its answer an atomic is not applied.
  Answers::Answer* answer =
      fetches
          ? ep_.engine.answers().make({request.id, 0, 0, kind_of(Service::reply)}, nullptr, bytes)
          : nullptr;
  if (fetches && answer == nullptr) return reply_error(from, request.id, FI_ENOMEM);
  std::byte values[max_atomic_bytes], old[max_atomic_bytes];
  load(*region, header.tag, values, bytes);
  atomic_apply(request.op, request.type, request.count, values, operand, compare, old);
  if (request.op != FI_ATOMIC_READ)
    written(*region, {header.tag, header.data, bytes, header.kind}, values);
  if (answer != nullptr) {
    if (bytes != 0) std::memcpy(answer->iov[0].iov_base, old, bytes);
    ep_.engine.answers().post(from, answer);
  }
  if (request.op != FI_ATOMIC_READ) count_remote_write(region);
}

/// Reads the current contents of a region.
void RmaTarget::load(const Region& region, std::uint64_t address, std::byte* to,
                     std::uint64_t bytes) const {
  if (region.what.in_pool()) {
    pool::Pool& pool = *ep_.domain->session->pool;
    pool.memory().observe_bulk(to, pool.base() + region.what.offset + (address - region.what.base),
                               bytes);
    return;
  }
  const Pieces pieces = locate(region, address, bytes);
  transport::iov_visit(pieces.iov, pieces.count, 0, bytes,
                       [&](const std::byte* from, std::uint64_t length, std::uint64_t done) {
                         std::memcpy(to + done, from, length);
                       });
}

/// Handles the report of a direct access. After a write our cached copies are stale, since the
/// bytes went to the device.
void RmaTarget::report(Peer from, const Header& header, const void* payload) {
  WriteReport report;
  if (header.bytes != sizeof report) return;
  std::memcpy(&report, payload, sizeof report);
  const bool reads = (report.flags & WriteReport::read) != 0;
  const bool direct = (report.flags & WriteReport::direct) != 0;
  Region* region = ep_.domain->regions.find(report.key);
  if (direct && !reads && region != nullptr && region->what.in_pool() &&
      region->what.holds(report.address, report.bytes)) {
    pool::Pool& pool = *ep_.domain->session->pool;
    pool.memory().invalidate(
        pool.base() + region->what.offset + (report.address - region->what.base), report.bytes);
    pool.memory().load_fence();
  }
  if (direct && reads && ep_.counters.remote_read != nullptr) ep_.counters.remote_read->count();
  if (direct && !reads) count_remote_write(region);
  if ((header.kind & kind_cq_data) == 0 || ep_.rx_cq == nullptr) return;
  Completion completion;
  completion.flags = FI_RMA | FI_REMOTE_CQ_DATA | (reads ? FI_REMOTE_READ : FI_REMOTE_WRITE);
  completion.bytes = report.bytes;
  completion.data = header.data;
  if ((ep_.caps & FI_SOURCE) != 0)
    completion.source = ep_.av->number_of(ep_.transport()->address_of(from));
  ep_.rx_cq->push(completion);
}

void RmaTarget::request(Peer from, const Header& header, const void* payload) {
  switch (service_of(header)) {
    case Service::write:
      return write(from, header, payload);
    case Service::read:
      return read(from, header, payload);
    case Service::atomic:
      return atomic(from, header, payload);
    case Service::report:
      return report(from, header, payload);
    default:
      return;
  }
}

/// Returns the buffer for a long request. A write to memory outside the pool arrives in place; any
/// other request is buffered until it is complete.
ReceiveBuffer RmaTarget::begin_request(Peer from, const Header& header) {
  constexpr std::uint64_t longest = sizeof(AtomicRequest) + 2 * max_atomic_bytes;
  const bool writes = service_of(header) == Service::write;
  int error = 0;
  Region* region = nullptr;
  if (writes) {
    region = allowed(header, header.bytes, rma::remote_write, &error);
    if (region == nullptr) return refuse(from, header, error), ReceiveBuffer{};
  } else if (header.bytes > longest) {
    return {};
  }
  Request* arrival = requests_.take();
  if (arrival == nullptr) return ep_.transport()->send_error(from, FI_ENOMEM), ReceiveBuffer{};
  arrival->target = this;
  arrival->header = header;
  arrival->from = from;
  arrival->region = nullptr;
  arrival->heap = nullptr;
  if (region != nullptr && !region->what.in_pool()) {
    arrival->region = region;
    arrival->pieces = locate(*region, header.tag, header.bytes);
  } else {
    arrival->heap = allocate(header.bytes);
    if (arrival->heap == nullptr) {
      requests_.give(arrival);
      ep_.transport()->send_error(from, FI_ENOMEM);  // the peer may be waiting for an answer
      return {};
    }
    arrival->pieces.iov[0] = {arrival->heap, header.bytes};
    arrival->pieces.count = 1;
  }
  arriving_.push_back(arrival);
  return {.iov = arrival->pieces.iov, .iov_count = arrival->pieces.count, .arrival = arrival};
}

void RmaTarget::arrived(Request* arrived) {
  if (arrived->heap != nullptr)
    request(arrived->from, arrived->header, arrived->heap);
  else
    count_remote_write(arrived->region);
  forget(arrived);
}

void RmaTarget::forget(Request* request) {
  arriving_.remove(request);
  std::free(request->heap);
  requests_.give(request);
}

}  // namespace penstock::ofi
