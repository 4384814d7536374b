// One-sided calls on an alias.
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "alias.hpp"
#include "transport/iov.hpp"

namespace penstock::ofi {

namespace {

/// A range or vector of local memory and one remote range.
struct RmaText {
  fi_rma_iov remote{};
  fi_msg_rma msg{};

  RmaText(const iovec* iov, std::size_t count, fi_addr_t peer, std::uint64_t address,
          std::uint64_t key, void* context, std::uint64_t data = 0) {
    remote = {address, transport::iov_bytes(iov, count), key};
    msg = {iov, nullptr, count, peer, &remote, 1, context, data};
  }
  RmaText(const RmaText&) = delete;
  RmaText& operator=(const RmaText&) = delete;
};

iovec stretch(const void* buffer, std::size_t bytes) {
  return {const_cast<void*>(buffer), bytes};
}

ssize_t readv(fid_ep* self, const iovec* iov, void**, std::size_t count, fi_addr_t from,
              std::uint64_t address, std::uint64_t key, void* context) {
  const Alias& alias = alias_of(self);
  const RmaText text(iov, count, from, address, key, context);
  return fi_readmsg(alias.original, &text.msg, alias.tx_flags);
}
ssize_t read(fid_ep* self, void* buffer, std::size_t bytes, void*, fi_addr_t from,
             std::uint64_t address, std::uint64_t key, void* context) {
  const iovec iov = stretch(buffer, bytes);
  return readv(self, &iov, nullptr, 1, from, address, key, context);
}
ssize_t readmsg(fid_ep* self, const fi_msg_rma* msg, std::uint64_t flags) {
  return fi_readmsg(alias_of(self).original, msg, flags);
}
ssize_t writev(fid_ep* self, const iovec* iov, void**, std::size_t count, fi_addr_t to,
               std::uint64_t address, std::uint64_t key, void* context) {
  const Alias& alias = alias_of(self);
  const RmaText text(iov, count, to, address, key, context);
  return fi_writemsg(alias.original, &text.msg, alias.tx_flags);
}
ssize_t write(fid_ep* self, const void* buffer, std::size_t bytes, void*, fi_addr_t to,
              std::uint64_t address, std::uint64_t key, void* context) {
  const iovec iov = stretch(buffer, bytes);
  return writev(self, &iov, nullptr, 1, to, address, key, context);
}
ssize_t writemsg(fid_ep* self, const fi_msg_rma* msg, std::uint64_t flags) {
  return fi_writemsg(alias_of(self).original, msg, flags);
}
ssize_t inject(fid_ep* self, const void* buffer, std::size_t bytes, fi_addr_t to,
               std::uint64_t address, std::uint64_t key) {
  return fi_inject_write(alias_of(self).original, buffer, bytes, to, address, key);
}
ssize_t writedata(fid_ep* self, const void* buffer, std::size_t bytes, void*, std::uint64_t data,
                  fi_addr_t to, std::uint64_t address, std::uint64_t key, void* context) {
  const Alias& alias = alias_of(self);
  const iovec iov = stretch(buffer, bytes);
  const RmaText text(&iov, 1, to, address, key, context, data);
  return fi_writemsg(alias.original, &text.msg, alias.tx_flags | FI_REMOTE_CQ_DATA);
}
ssize_t injectdata(fid_ep* self, const void* buffer, std::size_t bytes, std::uint64_t data,
                   fi_addr_t to, std::uint64_t address, std::uint64_t key) {
  return fi_inject_writedata(alias_of(self).original, buffer, bytes, data, to, address, key);
}

// ---- atomics ---------------------------------------------------------------------------------

struct AtomicText {
  fi_rma_ioc remote{};
  fi_msg_atomic msg{};

  AtomicText(const fi_ioc* iov, std::size_t count, fi_addr_t peer, std::uint64_t address,
             std::uint64_t key, fi_datatype type, fi_op op, void* context) {
    remote = {address, 0, key};
    for (std::size_t i = 0; i < count; ++i) remote.count += iov[i].count;
    msg = {iov, nullptr, count, peer, &remote, 1, type, op, context, 0};
  }
  AtomicText(const AtomicText&) = delete;
  AtomicText& operator=(const AtomicText&) = delete;
};

fi_ioc some(const void* buffer, std::size_t count) {
  return {const_cast<void*>(buffer), count};
}

ssize_t atomicv(fid_ep* self, const fi_ioc* iov, void**, std::size_t count, fi_addr_t to,
                std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op,
                void* context) {
  const Alias& alias = alias_of(self);
  const AtomicText text(iov, count, to, address, key, type, op, context);
  return fi_atomicmsg(alias.original, &text.msg, alias.tx_flags);
}
ssize_t atomic(fid_ep* self, const void* buffer, std::size_t count, void*, fi_addr_t to,
               std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op,
               void* context) {
  const fi_ioc iov = some(buffer, count);
  return atomicv(self, &iov, nullptr, 1, to, address, key, type, op, context);
}
ssize_t atomicmsg(fid_ep* self, const fi_msg_atomic* msg, std::uint64_t flags) {
  return fi_atomicmsg(alias_of(self).original, msg, flags);
}
ssize_t inject_atomic(fid_ep* self, const void* buffer, std::size_t count, fi_addr_t to,
                      std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op) {
  return fi_inject_atomic(alias_of(self).original, buffer, count, to, address, key, type, op);
}
ssize_t fetchv(fid_ep* self, const fi_ioc* iov, void**, std::size_t count, fi_ioc* results, void**,
               std::size_t result_count, fi_addr_t to, std::uint64_t address, std::uint64_t key,
               fi_datatype type, fi_op op, void* context) {
  const Alias& alias = alias_of(self);
  const AtomicText text(iov, count, to, address, key, type, op, context);
  return fi_fetch_atomicmsg(alias.original, &text.msg, results, nullptr, result_count,
                            alias.tx_flags);
}
ssize_t fetch(fid_ep* self, const void* buffer, std::size_t count, void*, void* result, void*,
              fi_addr_t to, std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op,
              void* context) {
  const fi_ioc iov = some(buffer, count);
  fi_ioc results = some(result, count);
  return fetchv(self, &iov, nullptr, 1, &results, nullptr, 1, to, address, key, type, op, context);
}
ssize_t fetchmsg(fid_ep* self, const fi_msg_atomic* msg, fi_ioc* results, void** descs,
                 std::size_t count, std::uint64_t flags) {
  return fi_fetch_atomicmsg(alias_of(self).original, msg, results, descs, count, flags);
}
ssize_t comparev(fid_ep* self, const fi_ioc* iov, void**, std::size_t count, const fi_ioc* compares,
                 void**, std::size_t compare_count, fi_ioc* results, void**,
                 std::size_t result_count, fi_addr_t to, std::uint64_t address, std::uint64_t key,
                 fi_datatype type, fi_op op, void* context) {
  const Alias& alias = alias_of(self);
  const AtomicText text(iov, count, to, address, key, type, op, context);
  return fi_compare_atomicmsg(alias.original, &text.msg, compares, nullptr, compare_count, results,
                              nullptr, result_count, alias.tx_flags);
}
ssize_t compare(fid_ep* self, const void* buffer, std::size_t count, void*, const void* wanted,
                void*, void* result, void*, fi_addr_t to, std::uint64_t address, std::uint64_t key,
                fi_datatype type, fi_op op, void* context) {
  const fi_ioc iov = some(buffer, count), compares = some(wanted, count);
  fi_ioc results = some(result, count);
  return comparev(self, &iov, nullptr, 1, &compares, nullptr, 1, &results, nullptr, 1, to, address,
                  key, type, op, context);
}
ssize_t comparemsg(fid_ep* self, const fi_msg_atomic* msg, const fi_ioc* compares,
                   void** compare_descs, std::size_t compare_count, fi_ioc* results,
                   void** result_descs, std::size_t result_count, std::uint64_t flags) {
  return fi_compare_atomicmsg(alias_of(self).original, msg, compares, compare_descs, compare_count,
                              results, result_descs, result_count, flags);
}
int atomic_valid(fid_ep* self, fi_datatype type, fi_op op, std::size_t* count) {
  return fi_atomicvalid(alias_of(self).original, type, op, count);
}
int fetch_valid(fid_ep* self, fi_datatype type, fi_op op, std::size_t* count) {
  return fi_fetch_atomicvalid(alias_of(self).original, type, op, count);
}
int compare_valid(fid_ep* self, fi_datatype type, fi_op op, std::size_t* count) {
  return fi_compare_atomicvalid(alias_of(self).original, type, op, count);
}

}  // namespace

fi_ops_rma alias_rma_ops = {
    .size = sizeof(fi_ops_rma),
    .read = read,
    .readv = readv,
    .readmsg = readmsg,
    .write = write,
    .writev = writev,
    .writemsg = writemsg,
    .inject = inject,
    .writedata = writedata,
    .injectdata = injectdata,
};

fi_ops_atomic alias_atomic_ops = {
    .size = sizeof(fi_ops_atomic),
    .write = atomic,
    .writev = atomicv,
    .writemsg = atomicmsg,
    .inject = inject_atomic,
    .readwrite = fetch,
    .readwritev = fetchv,
    .readwritemsg = fetchmsg,
    .compwrite = compare,
    .compwritev = comparev,
    .compwritemsg = comparemsg,
    .writevalid = atomic_valid,
    .readwritevalid = fetch_valid,
    .compwritevalid = compare_valid,
};

}  // namespace penstock::ofi
