// Each call on an alias becomes the original endpoint's call with flags: fi_send becomes
// fi_sendmsg, and so on.
#include "alias.hpp"

#include <rdma/fi_errno.h>

namespace penstock::ofi {

namespace {

Alias& alias_of_fid(fid* self) {
  return *static_cast<Alias*>(reinterpret_cast<fid_ep*>(self));
}
fid* original_of(fid* self) {
  return &alias_of_fid(self).original->fid;
}

// ---- messages --------------------------------------------------------------------------------

ssize_t recvv(fid_ep* self, const iovec* iov, void** desc, std::size_t count, fi_addr_t from,
              void* context) {
  const Alias& alias = alias_of(self);
  const fi_msg msg{iov, desc, count, from, context, 0};
  return fi_recvmsg(alias.original, &msg, alias.rx_flags);
}
ssize_t recv(fid_ep* self, void* buffer, std::size_t bytes, void*, fi_addr_t from, void* context) {
  const iovec iov{buffer, bytes};
  return recvv(self, &iov, nullptr, 1, from, context);
}
ssize_t recvmsg(fid_ep* self, const fi_msg* msg, std::uint64_t flags) {
  return fi_recvmsg(alias_of(self).original, msg, flags);
}
ssize_t sendv(fid_ep* self, const iovec* iov, void** desc, std::size_t count, fi_addr_t to,
              void* context) {
  const Alias& alias = alias_of(self);
  const fi_msg msg{iov, desc, count, to, context, 0};
  return fi_sendmsg(alias.original, &msg, alias.tx_flags);
}
ssize_t send(fid_ep* self, const void* buffer, std::size_t bytes, void*, fi_addr_t to,
             void* context) {
  const iovec iov{const_cast<void*>(buffer), bytes};
  return sendv(self, &iov, nullptr, 1, to, context);
}
ssize_t sendmsg(fid_ep* self, const fi_msg* msg, std::uint64_t flags) {
  return fi_sendmsg(alias_of(self).original, msg, flags);
}
ssize_t inject(fid_ep* self, const void* buffer, std::size_t bytes, fi_addr_t to) {
  return fi_inject(alias_of(self).original, buffer, bytes, to);
}
ssize_t senddata(fid_ep* self, const void* buffer, std::size_t bytes, void*, std::uint64_t data,
                 fi_addr_t to, void* context) {
  const Alias& alias = alias_of(self);
  const iovec iov{const_cast<void*>(buffer), bytes};
  const fi_msg msg{&iov, nullptr, 1, to, context, data};
  return fi_sendmsg(alias.original, &msg, alias.tx_flags | FI_REMOTE_CQ_DATA);
}
ssize_t injectdata(fid_ep* self, const void* buffer, std::size_t bytes, std::uint64_t data,
                   fi_addr_t to) {
  return fi_injectdata(alias_of(self).original, buffer, bytes, data, to);
}

fi_ops_msg alias_msg_ops = {
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

// ---- tagged messages -------------------------------------------------------------------------

ssize_t trecvv(fid_ep* self, const iovec* iov, void** desc, std::size_t count, fi_addr_t from,
               std::uint64_t tag, std::uint64_t ignore, void* context) {
  const Alias& alias = alias_of(self);
  const fi_msg_tagged msg{iov, desc, count, from, tag, ignore, context, 0};
  return fi_trecvmsg(alias.original, &msg, alias.rx_flags);
}
ssize_t trecv(fid_ep* self, void* buffer, std::size_t bytes, void*, fi_addr_t from,
              std::uint64_t tag, std::uint64_t ignore, void* context) {
  const iovec iov{buffer, bytes};
  return trecvv(self, &iov, nullptr, 1, from, tag, ignore, context);
}
ssize_t trecvmsg(fid_ep* self, const fi_msg_tagged* msg, std::uint64_t flags) {
  return fi_trecvmsg(alias_of(self).original, msg, flags);
}
ssize_t tsendv(fid_ep* self, const iovec* iov, void** desc, std::size_t count, fi_addr_t to,
               std::uint64_t tag, void* context) {
  const Alias& alias = alias_of(self);
  const fi_msg_tagged msg{iov, desc, count, to, tag, 0, context, 0};
  return fi_tsendmsg(alias.original, &msg, alias.tx_flags);
}
ssize_t tsend(fid_ep* self, const void* buffer, std::size_t bytes, void*, fi_addr_t to,
              std::uint64_t tag, void* context) {
  const iovec iov{const_cast<void*>(buffer), bytes};
  return tsendv(self, &iov, nullptr, 1, to, tag, context);
}
ssize_t tsendmsg(fid_ep* self, const fi_msg_tagged* msg, std::uint64_t flags) {
  return fi_tsendmsg(alias_of(self).original, msg, flags);
}
ssize_t tinject(fid_ep* self, const void* buffer, std::size_t bytes, fi_addr_t to,
                std::uint64_t tag) {
  return fi_tinject(alias_of(self).original, buffer, bytes, to, tag);
}
ssize_t tsenddata(fid_ep* self, const void* buffer, std::size_t bytes, void*, std::uint64_t data,
                  fi_addr_t to, std::uint64_t tag, void* context) {
  const Alias& alias = alias_of(self);
  const iovec iov{const_cast<void*>(buffer), bytes};
  const fi_msg_tagged msg{&iov, nullptr, 1, to, tag, 0, context, data};
  return fi_tsendmsg(alias.original, &msg, alias.tx_flags | FI_REMOTE_CQ_DATA);
}
ssize_t tinjectdata(fid_ep* self, const void* buffer, std::size_t bytes, std::uint64_t data,
                    fi_addr_t to, std::uint64_t tag) {
  return fi_tinjectdata(alias_of(self).original, buffer, bytes, data, to, tag);
}

fi_ops_tagged alias_tagged_ops = {
    .size = sizeof(fi_ops_tagged),
    .recv = trecv,
    .recvv = trecvv,
    .recvmsg = trecvmsg,
    .send = tsend,
    .sendv = tsendv,
    .sendmsg = tsendmsg,
    .inject = tinject,
    .senddata = tsenddata,
    .injectdata = tinjectdata,
};

// ---- the rest --------------------------------------------------------------------------------

int close_alias(fid* self) {
  Alias& alias = alias_of_fid(self);
  alias.original->aliases.fetch_sub(1);
  delete &alias;
  return 0;
}

int control_alias(fid* self, int command, void* argument) {
  Alias& alias = alias_of_fid(self);
  const Guard guard(*alias.original->domain);
  return control_flags(command, static_cast<std::uint64_t*>(argument), alias.tx_flags,
                       alias.rx_flags);
}

ssize_t cancel(fid* self, void* context) {
  return fi_cancel(original_of(self), context);
}
int getopt(fid* self, int level, int name, void* value, std::size_t* length) {
  return fi_getopt(original_of(self), level, name, value, length);
}
int setopt(fid* self, int level, int name, const void* value, std::size_t length) {
  return fi_setopt(original_of(self), level, name, value, length);
}
int no_tx_context(fid_ep*, int, fi_tx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
int no_rx_context(fid_ep*, int, fi_rx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
ssize_t rx_size_left(fid_ep* self) {
  Ep* const original = alias_of(self).original;
  return original->ops->rx_size_left(original);
}
ssize_t tx_size_left(fid_ep* self) {
  Ep* const original = alias_of(self).original;
  return original->ops->tx_size_left(original);
}

fi_ops alias_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_alias,
    .bind = no_bind,
    .control = control_alias,
    .ops_open = no_ops_open,
};

fi_ops_ep alias_ep_ops = {
    .size = sizeof(fi_ops_ep),
    .cancel = cancel,
    .getopt = getopt,
    .setopt = setopt,
    .tx_ctx = no_tx_context,
    .rx_ctx = no_rx_context,
    .rx_size_left = rx_size_left,
    .tx_size_left = tx_size_left,
};

}  // namespace

int control_flags(int command, std::uint64_t* flags, std::uint64_t& tx_flags,
                  std::uint64_t& rx_flags) {
  if (command != FI_GETOPSFLAG && command != FI_SETOPSFLAG) return -FI_ENOSYS;
  const bool transmit = (*flags & FI_TRANSMIT) != 0, receive = (*flags & FI_RECV) != 0;
  if (transmit == receive) return -FI_EINVAL;
  std::uint64_t& kept = transmit ? tx_flags : rx_flags;
  if (command == FI_GETOPSFLAG) {
    *flags = kept;
  } else {
    kept = *flags & ~static_cast<std::uint64_t>(FI_TRANSMIT | FI_RECV);
  }
  return 0;
}

int open_alias(Ep& original, const struct fi_alias& wanted) {
  auto* alias = new (std::nothrow) Alias;
  if (alias == nullptr) return -FI_ENOMEM;
  alias->original = &original;
  alias->tx_flags = original.tx_flags;
  alias->rx_flags = original.rx_flags;
  std::uint64_t flags = wanted.flags;
  if (const int no = control_flags(FI_SETOPSFLAG, &flags, alias->tx_flags, alias->rx_flags)) {
    delete alias;
    return no;
  }
  alias->fid = {FI_CLASS_EP, original.fid.context, &alias_fid_ops};
  alias->ops = &alias_ep_ops;
  alias->cm = original.cm;
  alias->msg = &alias_msg_ops;
  alias->tagged = &alias_tagged_ops;
  alias->rma = &alias_rma_ops;
  alias->atomic = &alias_atomic_ops;
  original.aliases.fetch_add(1);
  *wanted.fid = &alias->fid;
  return 0;
}

}  // namespace penstock::ofi
