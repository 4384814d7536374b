// Endpoint management: open, bind, enable, options, close.
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>

#include "alias.hpp"
#include "base/log.hpp"
#include "ep.hpp"
#include "eq.hpp"
#include "info.hpp"
#include "lib.hpp"

namespace penstock::ofi {

namespace {

template <class T>
void erase(std::vector<T*>& from, T* item) {
  from.erase(std::remove(from.begin(), from.end(), item), from.end());
}

template <class T>
void add_once(std::vector<T*>& to, T* item) {
  if (std::find(to.begin(), to.end(), item) == to.end()) to.push_back(item);
}

/// True if an endpoint of this domain can be bound to the object.
bool belongs_to(fid* object, const Domain& domain) {
  switch (object->fclass) {
    case FI_CLASS_CQ:
      return static_cast<Cq*>(reinterpret_cast<fid_cq*>(object))->domain == &domain;
    case FI_CLASS_CNTR:
      return static_cast<Cntr*>(reinterpret_cast<fid_cntr*>(object))->domain == &domain;
    case FI_CLASS_AV:
      return static_cast<Av*>(reinterpret_cast<fid_av*>(object))->domain == &domain;
    case FI_CLASS_EQ:
      return static_cast<Eq*>(reinterpret_cast<fid_eq*>(object))->fabric == domain.fabric;
    default:
      return false;
  }
}

}  // namespace

Ep::~Ep() {
  domain->triggers.forget(*this);
  send_copies_now();
  engine.close();  // waits until the peers have received all messages
  erase(domain->endpoints, this);
  if (av != nullptr) {
    erase(av->endpoints, this);
    av->users.fetch_sub(1);
  }
  for (Cq* cq : {tx_cq, rx_cq}) {
    if (cq == nullptr) continue;
    erase(cq->endpoints, this);
    cq->users.fetch_sub(1);
  }
  for (Cntr* cntr : counters.all) {
    erase(cntr->endpoints, this);
    cntr->users.fetch_sub(1);
  }
  domain->users.fetch_sub(1);
}

int Ep::bind_cq(Cq* cq, std::uint64_t flags) {
  if ((flags & (FI_TRANSMIT | FI_RECV)) == 0) return -FI_EBADFLAGS;
  if (((flags & FI_TRANSMIT) != 0 && tx_cq != nullptr) ||
      ((flags & FI_RECV) != 0 && rx_cq != nullptr)) {
    return -FI_EBUSY;
  }
  const bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
  if ((flags & FI_TRANSMIT) != 0) {
    tx_cq = cq;
    tx_selective = selective;
    cq->users.fetch_add(1);
  }
  if ((flags & FI_RECV) != 0) {
    rx_cq = cq;
    rx_selective = selective;
    cq->users.fetch_add(1);
  }
  add_once(cq->endpoints, this);
  return 0;
}

int Ep::bind_cntr(Cntr* cntr, std::uint64_t flags) {
  constexpr std::uint64_t known =
      FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  if (flags == 0 || (flags & ~known) != 0) return -FI_EBADFLAGS;
  const struct {
    std::uint64_t flag;
    Cntr** place;
  } kinds[] = {{FI_SEND, &counters.tx},
               {FI_RECV, &counters.rx},
               {FI_READ, &counters.read},
               {FI_WRITE, &counters.write},
               {FI_REMOTE_READ, &counters.remote_read},
               {FI_REMOTE_WRITE, &counters.remote_write}};
  for (const auto& kind : kinds) {
    if ((flags & kind.flag) != 0 && *kind.place != nullptr) return -FI_EBUSY;
  }
  for (const auto& kind : kinds) {
    if ((flags & kind.flag) != 0) *kind.place = cntr;
  }
  counters.all.push_back(cntr);
  cntr->users.fetch_add(1);
  add_once(cntr->endpoints, this);
  return 0;
}

int Ep::bind(::fid* other, std::uint64_t flags) {
  if (transport() != nullptr) return -FI_EOPBADSTATE;
  if (other == nullptr || !belongs_to(other, *domain)) return -FI_EINVAL;
  return guarded([&]() -> int {
    switch (other->fclass) {
      case FI_CLASS_CQ:
        return bind_cq(static_cast<Cq*>(reinterpret_cast<fid_cq*>(other)), flags);
      case FI_CLASS_CNTR:
        return bind_cntr(static_cast<Cntr*>(reinterpret_cast<fid_cntr*>(other)), flags);
      case FI_CLASS_EQ:
        return 0;  // accepted; endpoints report no events to it
      case FI_CLASS_AV:
        break;
      default:
        return -FI_EINVAL;
    }
    if (av != nullptr) return -FI_EBUSY;
    av = static_cast<Av*>(reinterpret_cast<fid_av*>(other));
    av->users.fetch_add(1);
    av->endpoints.push_back(this);
    return 0;
  });
}

int Ep::enable() {
  if (transport() != nullptr) return 0;
  if (av == nullptr) return -FI_ENOAV;
  if (tx_cq == nullptr && rx_cq == nullptr) return -FI_ENOCQ;
  return guarded([&]() -> int {
    messages::Engine::Options options;
    options.endpoint.job = domain->session->launch.job;
    options.endpoint.while_closing = [this] {
      for (Ep* other : domain->endpoints)
        if (other != this) other->progress();
    };
    if (auto opened = engine.open(*domain->session->arena, options); !opened)
      return report(opened.error());
    inject_limit = std::min<std::uint32_t>(transport()->limits().inject_bytes, max_inject_bytes);
    if (auto announced = domain->regions.announce_at(*this); !announced)
      return report(announced.error());
    const transport::Address own = transport()->address();
    base::log(base::Level::debug, "endpoint in slot {} of job '{}', generation {}", own.slot,
              options.endpoint.job, own.generation);
    plugin::print_summary(*domain->session);
    for (Cq* cq : {tx_cq, rx_cq}) {
      if (cq != nullptr) cq->backoff.set(wait_policy(*domain->session));
    }
    return 0;
  });
}

namespace {

int close_ep(fid* self) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  if (ep.aliases.load() != 0) return -FI_EBUSY;
  // The guard's mutex outlives the endpoint: the domain cannot close before this returns.
  delete &ep;
  return 0;
}

int bind_ep(fid* self, fid* other, std::uint64_t flags) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  return ep.bind(other, flags);
}

int control_ep(fid* self, int command, void* argument) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  switch (command) {
    case FI_ENABLE:
      return ep.enable();
    case FI_ALIAS:
      return open_alias(ep, *static_cast<const struct fi_alias*>(argument));
    default:
      return control_flags(command, static_cast<std::uint64_t*>(argument), ep.tx_flags,
                           ep.rx_flags);
  }
}

// Options that libfabric 1.17's headers lack, with the values of libfabric 2.x.
constexpr int opt_max_msg_size = 12, opt_max_tagged_size = 13;
constexpr int opt_inject_msg_size = 16, opt_inject_tagged_size = 17;

int give_size(std::size_t value, void* to, std::size_t* length) {
  if (*length < sizeof(value)) {
    *length = sizeof(value);
    return -FI_ETOOSMALL;
  }
  std::memcpy(to, &value, sizeof(value));
  *length = sizeof(value);
  return 0;
}

int getopt_ep(fid_t self, int level, int name, void* value, std::size_t* length) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  Ep& ep = ep_of(self);
  const Guard guard(*ep.domain);
  switch (name) {
    case FI_OPT_MIN_MULTI_RECV:
      return give_size(ep.engine.matcher().min_multi_receive(), value, length);
    case FI_OPT_CM_DATA_SIZE:
      return give_size(0, value, length);
    case opt_max_msg_size:
    case opt_max_tagged_size:
      return give_size(max_message_bytes, value, length);
    case opt_inject_msg_size:
    case opt_inject_tagged_size:
      return give_size(ep.inject_size, value, length);
    default:
      return -FI_ENOPROTOOPT;
  }
}

int setopt_ep(fid_t self, int level, int name, const void* value, std::size_t length) {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  if (length != sizeof(std::size_t)) return -FI_EINVAL;
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  std::size_t bytes;
  std::memcpy(&bytes, value, sizeof(bytes));
  ep.engine.matcher().set_min_multi_receive(bytes);
  return 0;
}

ssize_t cancel_ep(fid_t self, void* context) {
  Ep& ep = ep_of(self);
  Guard guard(*ep.domain);
  if (ep.domain->triggers.any() && ep.domain->triggers.cancel(ep, context)) return 0;
  return ep.cancel(context);
}

int no_tx_context(fid_ep*, int, fi_tx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
int no_rx_context(fid_ep*, int, fi_rx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}

ssize_t size_left(fid_ep* self) {
  return ep_of(self).transport() != nullptr ? static_cast<ssize_t>(context_depth) : -FI_EOPBADSTATE;
}

int getname_ep(fid_t self, void* address, std::size_t* length) {
  Ep& ep = ep_of(self);
  if (ep.transport() == nullptr) return -FI_EOPBADSTATE;
  const transport::Address own = ep.transport()->address();
  const std::size_t room = *length;
  *length = sizeof(own);
  if (address != nullptr) std::memcpy(address, &own, std::min(room, sizeof(own)));
  return room < sizeof(own) ? -FI_ETOOSMALL : 0;
}

// Connection calls fail: an endpoint has no connections, and the pool assigns its address.
template <class... Arguments>
int refuse(Arguments...) {
  return -FI_ENOSYS;
}

fi_ops ep_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_ep,
    .bind = bind_ep,
    .control = control_ep,
    .ops_open = no_ops_open,
};

fi_ops_ep ep_ops = {
    .size = sizeof(fi_ops_ep),
    .cancel = cancel_ep,
    .getopt = getopt_ep,
    .setopt = setopt_ep,
    .tx_ctx = no_tx_context,
    .rx_ctx = no_rx_context,
    .rx_size_left = size_left,
    .tx_size_left = size_left,
};

fi_ops_cm cm_ops = {
    .size = sizeof(fi_ops_cm),
    .setname = refuse,
    .getname = getname_ep,
    .getpeer = refuse,
    .connect = refuse,
    .listen = refuse,
    .accept = refuse,
    .reject = refuse,
    .shutdown = refuse,
    .join = refuse,
};

/// True if the source address names a slot. That is refused, since the pool chooses the slot.
bool names_a_slot(const fi_info* info) {
  transport::Address wanted;
  if (info->src_addr == nullptr || info->src_addrlen != sizeof(wanted)) return false;
  std::memcpy(&wanted, info->src_addr, sizeof(wanted));
  return wanted.slot != any_slot;
}

}  // namespace

int open_endpoint(fid_domain* self, fi_info* info, fid_ep** result, void* context) {
  if (info == nullptr || info->ep_attr == nullptr || info->tx_attr == nullptr ||
      info->rx_attr == nullptr) {
    return -FI_EINVAL;
  }
  if (info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC) return -FI_EINVAL;
  if (names_a_slot(info)) return -FI_EADDRNOTAVAIL;
  if (info->ep_attr->tx_ctx_cnt > 1 || info->ep_attr->rx_ctx_cnt > 1) return -FI_EINVAL;
  return guarded([&]() -> int {
    auto* ep = new Ep;
    ep->domain = static_cast<Domain*>(self);
    ep->domain->users.fetch_add(1);
    {
      Guard guard(*ep->domain);
      ep->domain->endpoints.push_back(ep);
    }
    ep->fid = {FI_CLASS_EP, context, &ep_fid_ops};
    ep->ops = &ep_ops;
    ep->cm = &cm_ops;
    ep->msg = &msg_ops;
    ep->tagged = &tagged_ops;
    ep->rma = &rma_ops;
    ep->atomic = &atomic_ops;
    ep->caps = info->caps;
    ep->tx_flags = info->tx_attr->op_flags;
    ep->rx_flags = info->rx_attr->op_flags;
    ep->inject_size = max_inject_bytes;
    *result = ep;
    return 0;
  });
}

}  // namespace penstock::ofi
