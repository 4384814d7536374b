// Remote memory access and atomics are not offered (see getinfo): the tables refuse politely.
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "ep.hpp"

namespace penstock::ofi {

namespace {

template <class Result, class... Arguments>
Result refuse(Arguments...) {
  return -FI_EOPNOTSUPP;
}

}  // namespace

fi_ops_rma rma_ops = {
    .size = sizeof(fi_ops_rma),
    .read = refuse,
    .readv = refuse,
    .readmsg = refuse,
    .write = refuse,
    .writev = refuse,
    .writemsg = refuse,
    .inject = refuse,
    .writedata = refuse,
    .injectdata = refuse,
};

fi_ops_atomic atomic_ops = {
    .size = sizeof(fi_ops_atomic),
    .write = refuse,
    .writev = refuse,
    .writemsg = refuse,
    .inject = refuse,
    .readwrite = refuse,
    .readwritev = refuse,
    .readwritemsg = refuse,
    .compwrite = refuse,
    .compwritev = refuse,
    .compwritemsg = refuse,
    .writevalid = refuse,
    .readwritevalid = refuse,
    .compwritevalid = refuse,
};

}  // namespace penstock::ofi
