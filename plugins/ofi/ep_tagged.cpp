// fi_tsend and its relatives.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "ep.hpp"
#include "transport/iov.hpp"

namespace penstock::ofi {

namespace {

Header header_of(std::size_t bytes, std::uint64_t tag) {
  return {.tag = tag, .data = 0, .bytes = bytes, .kind = kind_tagged};
}
Header header_of(std::size_t bytes, std::uint64_t tag, std::uint64_t data) {
  return {.tag = tag, .data = data, .bytes = bytes, .kind = kind_tagged | kind_cq_data};
}

ssize_t post(Ep& ep, const iovec* iov, std::size_t count, fi_addr_t from, std::uint64_t tag,
             std::uint64_t ignore, void* context, std::uint64_t flags) {
  if (count > transport::max_iov) return -FI_EINVAL;
  ReceiveRequest request;
  if (count != 0) std::copy_n(iov, count, request.iov);
  request.iov_count = static_cast<std::uint32_t>(count);
  request.tagged = true;
  request.tag = tag;
  request.ignore = ignore;
  request.context = context;
  Guard guard(*ep.domain);
  // Only the untagged interface has multi-receive buffers.
  return ep.receive(request, from, flags & ~static_cast<std::uint64_t>(FI_MULTI_RECV));
}

ssize_t recv(fid_ep* self, void* buffer, std::size_t bytes, void*, fi_addr_t from,
             std::uint64_t tag, std::uint64_t ignore, void* context) {
  Ep& ep = ep_of(self);
  const iovec iov{buffer, bytes};
  return post(ep, &iov, 1, from, tag, ignore, context, ep.rx_flags);
}

ssize_t recvv(fid_ep* self, const iovec* iov, void**, std::size_t count, fi_addr_t from,
              std::uint64_t tag, std::uint64_t ignore, void* context) {
  Ep& ep = ep_of(self);
  return post(ep, iov, count, from, tag, ignore, context, ep.rx_flags);
}

ssize_t recvmsg(fid_ep* self, const fi_msg_tagged* msg, std::uint64_t flags) {
  Ep& ep = ep_of(self);
  if ((flags & FI_TRIGGER) != 0) return hold_triggered(ep, *msg, flags, FI_RECV, recvmsg);
  return post(ep, msg->msg_iov, msg->iov_count, msg->addr, msg->tag, msg->ignore, msg->context,
              flags);
}

ssize_t send(fid_ep* self, const void* buffer, std::size_t bytes, void*, fi_addr_t to,
             std::uint64_t tag, void* context) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.send_buffer(buffer, bytes, to, header_of(bytes, tag), ep.tx_flags, context);
}

ssize_t sendv(fid_ep* self, const iovec* iov, void**, std::size_t count, fi_addr_t to,
              std::uint64_t tag, void* context) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.send(
      {to, header_of(transport::iov_bytes(iov, count), tag), iov, count, ep.tx_flags, context});
}

ssize_t sendmsg(fid_ep* self, const fi_msg_tagged* msg, std::uint64_t flags) {
  Ep& ep = ep_of(self);
  if ((flags & FI_TRIGGER) != 0) return hold_triggered(ep, *msg, flags, FI_SEND, sendmsg);
  const std::size_t bytes = transport::iov_bytes(msg->msg_iov, msg->iov_count);
  const Header header = (flags & FI_REMOTE_CQ_DATA) != 0 ? header_of(bytes, msg->tag, msg->data)
                                                         : header_of(bytes, msg->tag);
  Guard guard(*ep.domain);
  return ep.send({msg->addr, header, msg->msg_iov, msg->iov_count, flags, msg->context});
}

ssize_t inject(fid_ep* self, const void* buffer, std::size_t bytes, fi_addr_t to,
               std::uint64_t tag) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.inject(buffer, bytes, to, header_of(bytes, tag));
}

ssize_t senddata(fid_ep* self, const void* buffer, std::size_t bytes, void*, std::uint64_t data,
                 fi_addr_t to, std::uint64_t tag, void* context) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.send_buffer(buffer, bytes, to, header_of(bytes, tag, data), ep.tx_flags, context);
}

ssize_t injectdata(fid_ep* self, const void* buffer, std::size_t bytes, std::uint64_t data,
                   fi_addr_t to, std::uint64_t tag) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.inject(buffer, bytes, to, header_of(bytes, tag, data));
}

}  // namespace

fi_ops_tagged tagged_ops = {
    .size = sizeof(fi_ops_tagged),
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
