// fi_read, fi_write and their relatives.
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "ep.hpp"
#include "info.hpp"
#include "transport/iov.hpp"

namespace penstock::ofi {

namespace {

/// One local and one remote range.
struct Plain {
  iovec local;
  fi_rma_iov remote;

  Plain(const void* buffer, std::size_t bytes, std::uint64_t address, std::uint64_t key)
      : local{const_cast<void*>(buffer), bytes}, remote{address, bytes, key} {}
  RmaCall call(fi_addr_t peer, std::uint64_t flags, void* context, bool report) const {
    return {&local, 1, peer, &remote, 1, 0, flags, context, report};
  }
};

bool same_bytes(const fi_msg_rma& msg) {
  std::size_t remote = 0;
  for (std::size_t i = 0; i < msg.rma_iov_count; ++i) remote += msg.rma_iov[i].len;
  return transport::iov_bytes(msg.msg_iov, msg.iov_count) == remote;
}

/// Takes the guard and begins the operation.
ssize_t post(Ep& ep, const RmaCall& call, ssize_t (RmaOrigin::*how)(const RmaCall&)) {
  Guard guard(*ep.domain);
  if (ep.transport() == nullptr) return -FI_EOPBADSTATE;
  if ((call.flags & FI_INJECT) != 0 &&
      transport::iov_bytes(call.iov, call.iov_count) > ep.inject_size)
    return -FI_EINVAL;
  return (ep.rma_origin.*how)(call);
}

ssize_t read(fid_ep* self, void* buffer, std::size_t bytes, void*, fi_addr_t from,
             std::uint64_t address, std::uint64_t key, void* context) {
  Ep& ep = ep_of(self);
  const Plain plain(buffer, bytes, address, key);
  return post(ep, plain.call(from, ep.tx_flags & ~FI_INJECT, context, ep.reports_send(ep.tx_flags)),
              &RmaOrigin::read);
}

ssize_t vector(Ep& ep, const iovec* iov, std::size_t count, fi_addr_t peer, std::uint64_t address,
               std::uint64_t key, void* context, ssize_t (RmaOrigin::*how)(const RmaCall&)) {
  const fi_rma_iov remote{address, transport::iov_bytes(iov, count), key};
  return post(ep,
              {iov, count, peer, &remote, 1, 0, ep.tx_flags, context, ep.reports_send(ep.tx_flags)},
              how);
}

ssize_t readv(fid_ep* self, const iovec* iov, void**, std::size_t count, fi_addr_t from,
              std::uint64_t address, std::uint64_t key, void* context) {
  return vector(ep_of(self), iov, count, from, address, key, context, &RmaOrigin::read);
}

ssize_t message(Ep& ep, const fi_msg_rma& msg, std::uint64_t flags,
                ssize_t (RmaOrigin::*how)(const RmaCall&)) {
  if (!same_bytes(msg)) return -FI_EINVAL;
  return post(ep,
              {msg.msg_iov, msg.iov_count, msg.addr, msg.rma_iov, msg.rma_iov_count, msg.data,
               flags, msg.context, ep.reports_send(flags)},
              how);
}

ssize_t readmsg(fid_ep* self, const fi_msg_rma* msg, std::uint64_t flags) {
  Ep& ep = ep_of(self);
  if ((flags & FI_TRIGGER) != 0) return hold_triggered(ep, *msg, flags, FI_READ, readmsg);
  return message(ep, *msg, flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA), &RmaOrigin::read);
}

ssize_t write(fid_ep* self, const void* buffer, std::size_t bytes, void*, fi_addr_t to,
              std::uint64_t address, std::uint64_t key, void* context) {
  Ep& ep = ep_of(self);
  const Plain plain(buffer, bytes, address, key);
  return post(ep, plain.call(to, ep.tx_flags, context, ep.reports_send(ep.tx_flags)),
              &RmaOrigin::write);
}

ssize_t writev(fid_ep* self, const iovec* iov, void**, std::size_t count, fi_addr_t to,
               std::uint64_t address, std::uint64_t key, void* context) {
  return vector(ep_of(self), iov, count, to, address, key, context, &RmaOrigin::write);
}

ssize_t writemsg(fid_ep* self, const fi_msg_rma* msg, std::uint64_t flags) {
  Ep& ep = ep_of(self);
  if ((flags & FI_TRIGGER) != 0) return hold_triggered(ep, *msg, flags, FI_WRITE, writemsg);
  return message(ep, *msg, flags, &RmaOrigin::write);
}

ssize_t inject_write(fid_ep* self, const void* buffer, std::size_t bytes, fi_addr_t to,
                     std::uint64_t address, std::uint64_t key) {
  Ep& ep = ep_of(self);
  const Plain plain(buffer, bytes, address, key);
  return post(ep, plain.call(to, ep.inject_flags(), nullptr, false), &RmaOrigin::write);
}

ssize_t writedata(fid_ep* self, const void* buffer, std::size_t bytes, void*, std::uint64_t data,
                  fi_addr_t to, std::uint64_t address, std::uint64_t key, void* context) {
  Ep& ep = ep_of(self);
  const Plain plain(buffer, bytes, address, key);
  RmaCall call =
      plain.call(to, ep.tx_flags | FI_REMOTE_CQ_DATA, context, ep.reports_send(ep.tx_flags));
  call.data = data;
  return post(ep, call, &RmaOrigin::write);
}

ssize_t inject_writedata(fid_ep* self, const void* buffer, std::size_t bytes, std::uint64_t data,
                         fi_addr_t to, std::uint64_t address, std::uint64_t key) {
  const Plain plain(buffer, bytes, address, key);
  Ep& ep = ep_of(self);
  RmaCall call = plain.call(to, ep.inject_flags() | FI_REMOTE_CQ_DATA, nullptr, false);
  call.data = data;
  return post(ep, call, &RmaOrigin::write);
}

}  // namespace

fi_ops_rma rma_ops = {
    .size = sizeof(fi_ops_rma),
    .read = read,
    .readv = readv,
    .readmsg = readmsg,
    .write = write,
    .writev = writev,
    .writemsg = writemsg,
    .inject = inject_write,
    .writedata = writedata,
    .injectdata = inject_writedata,
};

}  // namespace penstock::ofi
