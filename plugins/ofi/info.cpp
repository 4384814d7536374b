#include "info.hpp"

#include <fmt/core.h>
#include <strings.h>

#include <cstdlib>
#include <cstring>

#include "domain.hpp"
#include "lib.hpp"
#include "transport/transport.hpp"

namespace penstock::ofi {

namespace {

using Refusal = std::optional<std::string>;

constexpr int mr_basic = 1 << 0;     // FI_MR_BASIC, an enumerator before libfabric 2
constexpr int mr_scalable = 1 << 1;  // FI_MR_SCALABLE
constexpr std::uint64_t generic_tag_format = 0xaaaaaaaaaaaaaaaaull;

Refusal too_large(const char* what, std::size_t wanted, std::size_t offered) {
  if (wanted <= offered) return std::nullopt;
  return fmt::format("{} {} wanted, {} offered", what, wanted, offered);
}

Refusal beyond(const char* what, std::uint64_t wanted, std::uint64_t offered) {
  if ((wanted & ~offered) == 0) return std::nullopt;
  return fmt::format("{} {:#x} not offered", what, wanted & ~offered);
}

/// Refuses a requested slot, since the pool chooses an endpoint's slot.
Refusal refuse_source(const fi_info* hints) {
  if (hints->src_addr == nullptr || hints->src_addrlen == 0) return std::nullopt;
  transport::Address wanted;
  if (hints->src_addrlen != sizeof(wanted)) return "the source address is none of ours";
  std::memcpy(&wanted, hints->src_addr, sizeof(wanted));
  if (wanted.slot != any_slot) return "a particular source address cannot be had";
  return std::nullopt;
}

Refusal refuse_fabric(const fi_fabric_attr* hints) {
  if (hints == nullptr) return std::nullopt;
  if (hints->name != nullptr && std::strcmp(hints->name, provider_name) != 0) {
    return fmt::format("fabric '{}' wanted, '{}' offered", hints->name, provider_name);
  }
  if (hints->prov_version > provider_version) return "a newer provider version is wanted";
  return std::nullopt;
}

/// Checks domain hints. Any threading model is accepted, from FI_THREAD_SAFE, which demands most of
/// a provider, to FI_THREAD_DOMAIN.
Refusal refuse_domain(const fi_domain_attr* hints, std::uint32_t version, const Offer& offer) {
  if (hints == nullptr) return std::nullopt;
  if (hints->name != nullptr && strcasecmp(hints->name, offer.domain_name.c_str()) != 0) {
    return fmt::format("domain '{}' wanted, '{}' offered", hints->name, offer.domain_name);
  }
  if (hints->control_progress == FI_PROGRESS_AUTO || hints->data_progress == FI_PROGRESS_AUTO) {
    return "automatic progress wanted, manual offered";
  }
  if (auto no = too_large("cq_data_size", hints->cq_data_size, cq_data_bytes)) return no;
  if (auto no = too_large("max_ep_stx_ctx", hints->max_ep_stx_ctx, 0)) return no;
  if (auto no = too_large("max_ep_srx_ctx", hints->max_ep_srx_ctx, 0)) return no;
  if (auto no = too_large("ep_cnt", hints->ep_cnt, transport::max_endpoints)) return no;
  if (FI_VERSION_LT(version, FI_VERSION(1, 5))) return std::nullopt;
  if (auto no = too_large("mr_iov_limit", hints->mr_iov_limit, transport::max_iov)) return no;
  if (auto no = beyond("domain capabilities", hints->caps, domain_caps)) return no;
  if (auto no = too_large("authorization key", hints->auth_key_size, 0)) return no;
  return too_large("max_err_data", hints->max_err_data, max_error_text);
}

Refusal refuse_endpoint(const fi_ep_attr* hints) {
  if (hints == nullptr) return std::nullopt;
  if (hints->type != FI_EP_UNSPEC && hints->type != FI_EP_RDM) return "only FI_EP_RDM is offered";
  if (hints->protocol != FI_PROTO_UNSPEC && hints->protocol != wire_protocol) {
    return "another wire protocol is wanted";
  }
  if (auto no = too_large("max_msg_size", hints->max_msg_size, max_message_bytes)) return no;
  if (auto no = too_large("tx_ctx_cnt", hints->tx_ctx_cnt, 1)) return no;
  if (auto no = too_large("rx_ctx_cnt", hints->rx_ctx_cnt, 1)) return no;
  if (auto no = too_large("max_order_raw_size", hints->max_order_raw_size, max_message_bytes)) {
    return no;
  }
  return too_large("authorization key", hints->auth_key_size, 0);
}

Refusal refuse_tx(const fi_tx_attr* hints) {
  if (hints == nullptr) return std::nullopt;
  // Transmit attributes ignore receive capabilities and vice versa: fi_endpoint(3).
  if (auto no = beyond("tx capabilities", hints->caps, all_caps)) return no;
  if (auto no = beyond("tx op_flags", hints->op_flags, tx_op_flags)) return no;
  if (auto no = beyond("tx msg_order", hints->msg_order, message_order)) return no;
  if (hints->comp_order != 0) return "ordered completions are not offered";
  if (auto no = too_large("inject_size", hints->inject_size, max_inject_bytes)) return no;
  if (auto no = too_large("tx size", hints->size, context_depth)) return no;
  if (auto no = too_large("tx iov_limit", hints->iov_limit, transport::max_iov)) return no;
  return too_large("rma_iov_limit", hints->rma_iov_limit, transport::max_iov);
}

Refusal refuse_rx(const fi_rx_attr* hints) {
  if (hints == nullptr) return std::nullopt;
  if (auto no = beyond("rx capabilities", hints->caps, all_caps)) return no;
  if (auto no = beyond("rx op_flags", hints->op_flags, rx_op_flags)) return no;
  if (auto no = beyond("rx msg_order", hints->msg_order, message_order)) return no;
  if (hints->comp_order != 0) return "ordered completions are not offered";
  if (auto no = too_large("rx size", hints->size, context_depth)) return no;
  return too_large("rx iov_limit", hints->iov_limit, transport::max_iov);
}

/// Capabilities to return: the requested ones, both directions if the hints name none, and the ones
/// that cost nothing.
std::uint64_t offered_caps(const fi_info* hints) {
  if (hints == nullptr || hints->caps == 0) return all_caps;
  std::uint64_t caps = hints->caps;
  if ((caps & (FI_MSG | FI_TAGGED)) != 0 && (caps & (FI_SEND | FI_RECV)) == 0) {
    caps |= FI_SEND | FI_RECV;
  }
  constexpr std::uint64_t one_sided = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  if ((caps & (FI_RMA | FI_ATOMIC)) != 0 && (caps & one_sided) == 0) caps |= one_sided;
  return caps | domain_caps;
}

/// Chooses the registration mode. Users that accept provider keys get them, since we never reuse
/// one for another region. Virtual addresses come along, because Intel MPI does not work well with
/// a provider that has only one of the two.
int offered_mr_mode(const fi_domain_attr* hints, std::uint32_t version) {
  const int wanted = hints != nullptr ? hints->mr_mode : 0;
  if ((wanted & mr_basic) != 0) return mr_basic;
  if ((wanted & mr_scalable) != 0) return mr_scalable;
  if (FI_VERSION_LT(version, FI_VERSION(1, 5))) return mr_scalable;
  return wanted & (FI_MR_PROV_KEY | FI_MR_VIRT_ADDR);
}

template <class T>
T wanted_or(T wanted, T otherwise) {
  return wanted != T{} ? wanted : otherwise;
}

void fill_domain(fi_domain_attr* attr, const fi_domain_attr* hints, std::uint32_t version) {
  attr->threading = FI_THREAD_SAFE;
  attr->av_type = FI_AV_UNSPEC;
  if (hints != nullptr) {
    attr->threading = wanted_or(hints->threading, attr->threading);
    attr->av_type = hints->av_type;
  }
  attr->control_progress = FI_PROGRESS_MANUAL;
  attr->data_progress = FI_PROGRESS_MANUAL;
  attr->resource_mgmt = FI_RM_ENABLED;
  attr->mr_mode = offered_mr_mode(hints, version);
  attr->mr_key_size = 8;
  attr->cq_data_size = cq_data_bytes;
  attr->cq_cnt = 65536;
  attr->ep_cnt = transport::max_endpoints;
  attr->tx_ctx_cnt = transport::max_endpoints;
  attr->rx_ctx_cnt = transport::max_endpoints;
  attr->max_ep_tx_ctx = 1;
  attr->max_ep_rx_ctx = 1;
  attr->cntr_cnt = 65536;
  attr->mr_iov_limit = transport::max_iov;
  attr->caps = domain_caps;
  attr->max_err_data = max_error_text;
  attr->mr_cnt = 65536;
}

void fill_endpoint(fi_ep_attr* attr, const fi_ep_attr* hints) {
  attr->type = FI_EP_RDM;
  attr->protocol = wire_protocol;
  attr->protocol_version = 1;
  attr->max_msg_size = max_message_bytes;
  attr->mem_tag_format = generic_tag_format;
  if (hints != nullptr) {
    attr->mem_tag_format = wanted_or(hints->mem_tag_format, attr->mem_tag_format);
  }
  attr->max_order_raw_size = max_message_bytes;
  attr->max_order_war_size = max_message_bytes;
  attr->max_order_waw_size = max_message_bytes;
  attr->tx_ctx_cnt = 1;
  attr->rx_ctx_cnt = 1;
}

void fill_contexts(fi_info* info, const fi_info* hints) {
  fi_tx_attr* tx = info->tx_attr;
  tx->caps = info->caps & tx_caps;
  tx->msg_order = message_order;
  tx->inject_size = max_inject_bytes;
  tx->size = 1024;
  tx->iov_limit = transport::max_iov;
  tx->rma_iov_limit = transport::max_iov;
  if (hints != nullptr && hints->tx_attr != nullptr) {
    tx->op_flags = hints->tx_attr->op_flags;
    tx->msg_order = wanted_or(hints->tx_attr->msg_order, tx->msg_order);
    tx->size = wanted_or(hints->tx_attr->size, tx->size);
  }
  fi_rx_attr* rx = info->rx_attr;
  rx->caps = info->caps & rx_caps;
  rx->msg_order = message_order;
  rx->size = 1024;
  rx->iov_limit = transport::max_iov;
  if (hints != nullptr && hints->rx_attr != nullptr) {
    rx->op_flags = hints->rx_attr->op_flags;
    rx->msg_order = wanted_or(hints->rx_attr->msg_order, rx->msg_order);
    rx->size = wanted_or(hints->rx_attr->size, rx->size);
  }
}

}  // namespace

int plain_mr_mode(int mode) {
  if ((mode & mr_basic) != 0) return FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  return mode & ~mr_scalable;
}

Refusal refusal(std::uint32_t version, const fi_info* hints, const Offer& offer) {
  if (hints == nullptr) return std::nullopt;
  if (auto no = refuse_endpoint(hints->ep_attr)) return no;
  if (auto no = beyond("capabilities", hints->caps, all_caps)) return no;
  if (hints->addr_format != FI_FORMAT_UNSPEC && hints->addr_format != address_format) {
    return "another address format is wanted";
  }
  if (auto no = refuse_source(hints)) return no;
  if (auto no = refuse_fabric(hints->fabric_attr)) return no;
  if (auto no = refuse_domain(hints->domain_attr, version, offer)) return no;
  if (auto no = refuse_tx(hints->tx_attr)) return no;
  return refuse_rx(hints->rx_attr);
}

namespace {

bool fill_source(fi_info* info, std::uint64_t pool_id) {
  const transport::Address any{pool_id, 0, any_slot, 0};
  info->src_addr = std::malloc(sizeof(any));
  if (info->src_addr == nullptr) return false;
  std::memcpy(info->src_addr, &any, sizeof(any));
  info->src_addrlen = sizeof(any);
  return true;
}

/// True if an open domain has the registration mode offered here; only then may fi_getinfo return
/// it. A domain's mode defines the meaning of its regions' keys and addresses.
bool is_as_offered(fid_domain* open, const fi_domain_attr& offer) {
  if (open == nullptr) return false;
  const auto& domain = *static_cast<const Domain*>(open);
  return domain.mr_mode == plain_mr_mode(offer.mr_mode) &&
         (domain.serialize || offer.threading == FI_THREAD_DOMAIN);
}

}  // namespace

bool fill_info(fi_info* info, std::uint32_t version, const fi_info* hints, const Offer& offer) {
  info->caps = offered_caps(hints);
  info->mode = 0;
  info->addr_format = address_format;
  info->handle = hints != nullptr ? hints->handle : nullptr;
  fill_domain(info->domain_attr, hints != nullptr ? hints->domain_attr : nullptr, version);
  fill_endpoint(info->ep_attr, hints != nullptr ? hints->ep_attr : nullptr);
  fill_contexts(info, hints);
  if (hints != nullptr && hints->domain_attr != nullptr &&
      is_as_offered(hints->domain_attr->domain, *info->domain_attr)) {
    info->domain_attr->domain = hints->domain_attr->domain;
  }
  if (hints != nullptr && hints->fabric_attr != nullptr) {
    info->fabric_attr->fabric = hints->fabric_attr->fabric;
  }
  // prov_name stays null: libfabric fills it in.
  info->fabric_attr->prov_version = provider_version;
  info->fabric_attr->api_version = version;
  info->fabric_attr->name = ::strdup(provider_name);
  info->domain_attr->name = ::strdup(offer.domain_name.c_str());
  return info->fabric_attr->name != nullptr && info->domain_attr->name != nullptr &&
         fill_source(info, offer.pool_id);
}

}  // namespace penstock::ofi
