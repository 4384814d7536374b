#include "domain.hpp"

#include <dlfcn.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>

#include "atomics.hpp"
#include "base/log.hpp"
#include "info.hpp"
#include "lib.hpp"
#include "pool/members.hpp"
#include "session/apart.hpp"

namespace penstock::ofi {

namespace {

std::atomic<unsigned> opened{0};

int close_domain(fid* self) {
  auto* domain = static_cast<Domain*>(reinterpret_cast<fid_domain*>(self));
  if (domain->users.load() != 0) return -FI_EBUSY;
  domain->fabric->users.fetch_sub(1);
  delete domain;
  return 0;
}

int no_scalable(fid_domain*, fi_info*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
int no_stx(fid_domain*, fi_tx_attr*, fid_stx**, void*) {
  return -FI_ENOSYS;
}
int no_srx(fid_domain*, fi_rx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
int query_atomic(fid_domain*, fi_datatype type, fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags) {
  if ((flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) != 0) return -FI_EBADFLAGS;
  const AtomicForm form = (flags & FI_COMPARE_ATOMIC) != 0 ? AtomicForm::compare
                          : (flags & FI_FETCH_ATOMIC) != 0 ? AtomicForm::fetch
                                                           : AtomicForm::write;
  const std::size_t size = atomic_size(form, op, type);
  if (size == 0) return -FI_EOPNOTSUPP;
  attr->size = size;
  attr->count = max_atomic_bytes / size;
  return 0;
}
int no_collective(fid_domain*, fi_collective_op, fi_collective_attr*, std::uint64_t) {
  return -FI_ENOSYS;
}

fi_ops domain_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_domain,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
};

fi_ops_domain domain_ops = {
    .size = sizeof(fi_ops_domain),
    .av_open = open_av,
    .cq_open = open_cq,
    .endpoint = open_endpoint,
    .scalable_ep = no_scalable,
    .cntr_open = open_cntr,
    .poll_open = open_poll,
    .stx_ctx = no_stx,
    .srx_ctx = no_srx,
    .query_atomic = query_atomic,
    .query_collective = no_collective,
};

/// Tells the other ranks whether this process takes part in the pool's windows and collectives.
void announce_if_apart(const plugin::Session& session) {
  auto* const ask = reinterpret_cast<plugin::AskApart*>(dlsym(RTLD_DEFAULT, plugin::apart_symbol));
  plugin::Apart apart{.why = plugin::Apart::Why::unloaded};
  if (ask != nullptr) ask(&apart);
  if (apart.why != plugin::Apart::Why::none) plugin::announce_apart(session, apart);
}

}  // namespace

base::WaitPolicy wait_policy(const plugin::Session& session) {
  const std::uint32_t local_ranks =
      session.launch.local_size > 0 ? static_cast<std::uint32_t>(session.launch.local_size) : 1;
  return base::WaitPolicy::for_processes(
      std::max(local_ranks, session.pool->members().local_processes()));
}

unsigned domains_opened() {
  return opened.load();
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** result, void* context) {
  return guarded([&]() -> int {
    if (info == nullptr || info->domain_attr == nullptr) return -FI_EINVAL;
    auto session = plugin::open_session();
    if (!session) return report(session.error());
    const bool shared = info->domain_attr->threading != FI_THREAD_DOMAIN;
    // Defined in libpenstock-mpi.so.
    auto* const promised = dlsym(RTLD_DEFAULT, "mpi_penstock_one_thread_promised");
    auto* domain = new (std::nothrow) Domain(shared, reinterpret_cast<int (*)()>(promised));
    if (domain == nullptr) return -FI_ENOMEM;
    domain->fid = {FI_CLASS_DOMAIN, context, &domain_fid_ops};
    domain->ops = &domain_ops;
    domain->mr = mr_ops();
    domain->fabric = static_cast<Fabric*>(fabric);
    domain->fabric->users.fetch_add(1);
    domain->session = std::move(*session);
    announce_if_apart(*domain->session);
    domain->api_version = fabric->api_version;
    domain->mr_mode = plain_mr_mode(info->domain_attr->mr_mode);
    domain->unaware_users = domain->session->pool->memory().loads_may_be_stale() &&
                            dlsym(RTLD_DEFAULT, "mpi_penstock_gives_pool_memory") != nullptr;
    domain->rma_events = (info->caps & FI_RMA_EVENT) != 0;
    base::log(base::Level::debug, "domain on pool {}, calls {}", domain->session->spec,
              domain->serialize ? "serialized by a mutex" : "not serialized (FI_THREAD_DOMAIN)");
    opened.fetch_add(1);
    *result = domain;
    return 0;
  });
}

}  // namespace penstock::ofi
