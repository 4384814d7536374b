// fi_atomic, fi_fetch_atomic, fi_compare_atomic and their relatives.
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "ep.hpp"

namespace penstock::ofi {

namespace {

ssize_t post(Ep& ep, const AtomicCall& call) {
  if ((call.flags & FI_TRIGGER) != 0) return -FI_EOPNOTSUPP;  // only transfers are held
  Guard guard(*ep.domain);
  if (ep.transport() == nullptr) return -FI_EOPBADSTATE;
  return ep.rma_origin.atomic(call);
}

std::size_t total(const fi_ioc* list, std::size_t count) {
  std::size_t elements = 0;
  for (std::size_t i = 0; i < count; ++i) elements += list[i].count;
  return elements;
}

/// The target of the calls without a message: one range of its memory.
struct Target {
  fi_addr_t peer;
  std::uint64_t address, key;
  fi_datatype type;
  fi_op op;
  void* context;
};

struct List {
  const fi_ioc* at = nullptr;
  std::size_t count = 0;
};

ssize_t post(Ep& ep, AtomicForm form, const Target& target, List operand, List compare,
             List result) {
  const std::size_t elements = form == AtomicForm::write || operand.count != 0
                                   ? total(operand.at, operand.count)
                                   : total(result.at, result.count);
  const fi_rma_ioc remote{target.address, elements, target.key};
  return post(ep, {form, target.op, target.type, operand.at, operand.count, compare.at,
                   compare.count, result.at, result.count, target.peer, &remote, 1, ep.tx_flags,
                   target.context, ep.reports_send(ep.tx_flags)});
}

ssize_t post(Ep& ep, AtomicForm form, const fi_msg_atomic& msg, List compare, List result,
             std::uint64_t flags) {
  return post(ep, {form, msg.op, msg.datatype, msg.msg_iov, msg.iov_count, compare.at,
                   compare.count, result.at, result.count, msg.addr, msg.rma_iov, msg.rma_iov_count,
                   flags, msg.context, ep.reports_send(flags)});
}

fi_ioc one(const void* buffer, std::size_t count) {
  return {const_cast<void*>(buffer), count};
}

ssize_t write(fid_ep* self, const void* buffer, std::size_t count, void*, fi_addr_t to,
              std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  const fi_ioc operand = one(buffer, count);
  return post(ep_of(self), AtomicForm::write, {to, address, key, type, op, context}, {&operand, 1},
              {}, {});
}

ssize_t writev(fid_ep* self, const fi_ioc* iov, void**, std::size_t count, fi_addr_t to,
               std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op,
               void* context) {
  return post(ep_of(self), AtomicForm::write, {to, address, key, type, op, context}, {iov, count},
              {}, {});
}

ssize_t writemsg(fid_ep* self, const fi_msg_atomic* msg, std::uint64_t flags) {
  return post(ep_of(self), AtomicForm::write, *msg, {}, {}, flags);
}

ssize_t inject(fid_ep* self, const void* buffer, std::size_t count, fi_addr_t to,
               std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op) {
  const fi_ioc operand = one(buffer, count);
  const fi_rma_ioc remote{address, count, key};
  AtomicCall call{AtomicForm::write, op, type, &operand, 1};
  call.peer = to;
  call.remote = &remote;
  call.remote_count = 1;
  call.flags = ep_of(self).inject_flags();
  call.report = false;
  return post(ep_of(self), call);
}

ssize_t readwrite(fid_ep* self, const void* buffer, std::size_t count, void*, void* result, void*,
                  fi_addr_t to, std::uint64_t address, std::uint64_t key, fi_datatype type,
                  fi_op op, void* context) {
  const fi_ioc operand = one(buffer, count), old = one(result, count);
  return post(ep_of(self), AtomicForm::fetch, {to, address, key, type, op, context}, {&operand, 1},
              {}, {&old, 1});
}

ssize_t readwritev(fid_ep* self, const fi_ioc* iov, void**, std::size_t count, fi_ioc* results,
                   void**, std::size_t result_count, fi_addr_t to, std::uint64_t address,
                   std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  return post(ep_of(self), AtomicForm::fetch, {to, address, key, type, op, context}, {iov, count},
              {}, {results, result_count});
}

ssize_t readwritemsg(fid_ep* self, const fi_msg_atomic* msg, fi_ioc* results, void**,
                     std::size_t result_count, std::uint64_t flags) {
  return post(ep_of(self), AtomicForm::fetch, *msg, {}, {results, result_count}, flags);
}

ssize_t compwrite(fid_ep* self, const void* buffer, std::size_t count, void*, const void* compare,
                  void*, void* result, void*, fi_addr_t to, std::uint64_t address,
                  std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  const fi_ioc operand = one(buffer, count), with = one(compare, count), old = one(result, count);
  return post(ep_of(self), AtomicForm::compare, {to, address, key, type, op, context},
              {&operand, 1}, {&with, 1}, {&old, 1});
}

ssize_t compwritev(fid_ep* self, const fi_ioc* iov, void**, std::size_t count,
                   const fi_ioc* compares, void**, std::size_t compare_count, fi_ioc* results,
                   void**, std::size_t result_count, fi_addr_t to, std::uint64_t address,
                   std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  return post(ep_of(self), AtomicForm::compare, {to, address, key, type, op, context}, {iov, count},
              {compares, compare_count}, {results, result_count});
}

ssize_t compwritemsg(fid_ep* self, const fi_msg_atomic* msg, const fi_ioc* compares, void**,
                     std::size_t compare_count, fi_ioc* results, void**, std::size_t result_count,
                     std::uint64_t flags) {
  return post(ep_of(self), AtomicForm::compare, *msg, {compares, compare_count},
              {results, result_count}, flags);
}

template <AtomicForm form>
int valid(fid_ep*, fi_datatype type, fi_op op, std::size_t* count) {
  const std::size_t size = atomic_size(form, op, type);
  if (size == 0) return -FI_EOPNOTSUPP;
  if (count != nullptr) *count = max_atomic_bytes / size;
  return 0;
}

}  // namespace

fi_ops_atomic atomic_ops = {
    .size = sizeof(fi_ops_atomic),
    .write = write,
    .writev = writev,
    .writemsg = writemsg,
    .inject = inject,
    .readwrite = readwrite,
    .readwritev = readwritev,
    .readwritemsg = readwritemsg,
    .compwrite = compwrite,
    .compwritev = compwritev,
    .compwritemsg = compwritemsg,
    .writevalid = valid<AtomicForm::write>,
    .readwritevalid = valid<AtomicForm::fetch>,
    .compwritevalid = valid<AtomicForm::compare>,
};

}  // namespace penstock::ofi
