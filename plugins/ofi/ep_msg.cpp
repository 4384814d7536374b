// fi_send and its relatives.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "ep.hpp"
#include "transport/iov.hpp"

namespace penstock::ofi {

namespace {

Header header_of(std::size_t bytes) {
  return {.tag = 0, .data = 0, .bytes = bytes, .kind = 0};
}
Header header_of(std::size_t bytes, std::uint64_t data) {
  return {.tag = 0, .data = data, .bytes = bytes, .kind = kind_cq_data};
}

ssize_t post(Ep& ep, const iovec* iov, std::size_t count, fi_addr_t from, void* context,
             std::uint64_t flags) {
  if (count > transport::max_iov) return -FI_EINVAL;
  ReceiveRequest request;
  if (count != 0) std::copy_n(iov, count, request.iov);
  request.iov_count = static_cast<std::uint32_t>(count);
  request.context = context;
  Guard guard(*ep.domain);
  return ep.receive(request, from, flags);
}

ssize_t recv(fid_ep* self, void* buffer, std::size_t bytes, void*, fi_addr_t from, void* context) {
  Ep& ep = ep_of(self);
  const iovec iov{buffer, bytes};
  return post(ep, &iov, 1, from, context, ep.rx_flags);
}

ssize_t recvv(fid_ep* self, const iovec* iov, void**, std::size_t count, fi_addr_t from,
              void* context) {
  Ep& ep = ep_of(self);
  return post(ep, iov, count, from, context, ep.rx_flags);
}

ssize_t recvmsg(fid_ep* self, const fi_msg* msg, std::uint64_t flags) {
  Ep& ep = ep_of(self);
  if ((flags & FI_TRIGGER) != 0) return hold_triggered(ep, *msg, flags, FI_RECV, recvmsg);
  return post(ep, msg->msg_iov, msg->iov_count, msg->addr, msg->context, flags);
}

ssize_t send(fid_ep* self, const void* buffer, std::size_t bytes, void*, fi_addr_t to,
             void* context) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.send_buffer(buffer, bytes, to, header_of(bytes), ep.tx_flags, context);
}

ssize_t sendv(fid_ep* self, const iovec* iov, void**, std::size_t count, fi_addr_t to,
              void* context) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.send(
      {to, header_of(transport::iov_bytes(iov, count)), iov, count, ep.tx_flags, context});
}

ssize_t sendmsg(fid_ep* self, const fi_msg* msg, std::uint64_t flags) {
  Ep& ep = ep_of(self);
  if ((flags & FI_TRIGGER) != 0) return hold_triggered(ep, *msg, flags, FI_SEND, sendmsg);
  const std::size_t bytes = transport::iov_bytes(msg->msg_iov, msg->iov_count);
  const Header header =
      (flags & FI_REMOTE_CQ_DATA) != 0 ? header_of(bytes, msg->data) : header_of(bytes);
  Guard guard(*ep.domain);
  return ep.send({msg->addr, header, msg->msg_iov, msg->iov_count, flags, msg->context});
}

ssize_t inject(fid_ep* self, const void* buffer, std::size_t bytes, fi_addr_t to) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.inject(buffer, bytes, to, header_of(bytes));
}

ssize_t senddata(fid_ep* self, const void* buffer, std::size_t bytes, void*, std::uint64_t data,
                 fi_addr_t to, void* context) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.send_buffer(buffer, bytes, to, header_of(bytes, data), ep.tx_flags, context);
}

ssize_t injectdata(fid_ep* self, const void* buffer, std::size_t bytes, std::uint64_t data,
                   fi_addr_t to) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.inject(buffer, bytes, to, header_of(bytes, data));
}

}  // namespace

fi_ops_msg msg_ops = {
    .size = sizeof(fi_ops_msg),
    .recv = recv,
    .recvv = recvv,
    .recvmsg = recvmsg,
    .send = send,
    .sendv = sendv,
    .sendmsg = sendmsg,
    .inject = inject,
    .senddata = senddata,
    .injectdata = injectdata,
};

}  // namespace penstock::ofi
