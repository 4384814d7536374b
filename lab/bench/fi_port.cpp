#include "bench/fi_port.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstring>

#include "base/format.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint32_t api_version = FI_VERSION(1, 15);
constexpr std::uint64_t tag = 0x70656e;

tl::unexpected<Error> failed(const char* call, ssize_t status) {
  return fail(ErrorCode::internal, "{}: {}", call, fi_strerror(static_cast<int>(-status)));
}

FiHandle<fi_info> hints_for(const std::string& provider, bool one_sided) {
  FiHandle<fi_info> hints(fi_allocinfo());
  hints->caps = one_sided ? FI_TAGGED | FI_RMA : FI_TAGGED;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  hints->fabric_attr->prov_name = strdup(provider.c_str());  // freed with the hints
  return hints;
}

}  // namespace

Result<std::unique_ptr<FiPort>> FiPort::open(const std::string& provider, bool one_sided) {
  const auto hints = hints_for(provider, one_sided);
  const bool network = provider.rfind("tcp", 0) == 0;
  fi_info* found = nullptr;
  const int status = fi_getinfo(api_version, network ? "127.0.0.1" : nullptr, nullptr,
                                network ? FI_SOURCE : 0, hints.get(), &found);
  if (status != 0)
    return fail(ErrorCode::unavailable, "libfabric offers no provider {} for this measurement: {}",
                provider, fi_strerror(-status));
  auto port = std::make_unique<FiPort>();
  port->info_.reset(found);
  PENSTOCK_TRY(port->open_objects(found));
  return port;
}

Result<void> FiPort::open_objects(fi_info* info) {
  fid_fabric* fabric = nullptr;
  if (const int status = fi_fabric(info->fabric_attr, &fabric, nullptr))
    return failed("fi_fabric", status);
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int status = fi_domain(fabric, info, &domain, nullptr))
    return failed("fi_domain", status);
  domain_.reset(domain);
  fi_av_attr av_attr{};
  av_attr.type = FI_AV_TABLE;
  fid_av* addresses = nullptr;
  if (const int status = fi_av_open(domain, &av_attr, &addresses, nullptr))
    return failed("fi_av_open", status);
  addresses_.reset(addresses);
  for (FiHandle<fid_cq>* queue : {&sent_, &received_}) {
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    cq_attr.size = 256;
    fid_cq* cq = nullptr;
    if (const int status = fi_cq_open(domain, &cq_attr, &cq, nullptr))
      return failed("fi_cq_open", status);
    queue->reset(cq);
  }
  fid_ep* endpoint = nullptr;
  if (const int status = fi_endpoint(domain, info, &endpoint, nullptr))
    return failed("fi_endpoint", status);
  endpoint_.reset(endpoint);
  const int status = fi_ep_bind(endpoint, &addresses->fid, 0) |
                     fi_ep_bind(endpoint, &sent_->fid, FI_TRANSMIT) |
                     fi_ep_bind(endpoint, &received_->fid, FI_RECV);
  if (status != 0) return failed("fi_ep_bind", status);
  if (const int enabled = fi_enable(endpoint)) return failed("fi_enable", enabled);
  return {};
}

std::string FiPort::name() const {
  std::string name(letter_bytes, '\0');
  std::size_t bytes = name.size();
  if (fi_getname(&endpoint_->fid, name.data(), &bytes) != 0) return {};
  name.resize(bytes);
  return name;
}

Result<void> FiPort::connect(const std::string& peer_name) {
  const int inserted = fi_av_insert(addresses_.get(), peer_name.data(), 1, &peer_, 0, nullptr);
  if (inserted != 1) return failed("fi_av_insert", inserted < 0 ? inserted : -FI_EINVAL);
  return {};
}

Result<bool> FiPort::completed(fid_cq* queue) {
  fi_cq_tagged_entry entry;
  const ssize_t count = fi_cq_read(queue, &entry, 1);
  if (count == 1) return true;
  if (count == -FI_EAGAIN) return false;
  if (count != -FI_EAVAIL) return failed("fi_cq_read", count);
  fi_cq_err_entry error{};
  fi_cq_readerr(queue, &error, 0);
  return failed("completion", -error.err);
}

Result<void> FiPort::post(std::byte* to, std::size_t bytes) {
  for (;;) {
    const ssize_t status =
        fi_trecv(endpoint_.get(), to, bytes, nullptr, peer_, tag, 0, &receive_context_);
    if (status == 0) break;
    if (status != -FI_EAGAIN) return failed("fi_trecv", status);
    PENSTOCK_TRY(completed(sent_.get()));
  }
  posted_ = true;
  return {};
}

Result<void> FiPort::send(const std::byte* data, std::size_t bytes) {
  const bool inject = bytes <= info_->tx_attr->inject_size;
  for (;;) {
    const ssize_t status =
        inject ? fi_tinject(endpoint_.get(), data, bytes, peer_, tag)
               : fi_tsend(endpoint_.get(), data, bytes, nullptr, peer_, tag, &send_context_);
    if (status == 0) break;
    if (status != -FI_EAGAIN) return failed(inject ? "fi_tinject" : "fi_tsend", status);
    PENSTOCK_TRY(completed(sent_.get()));
  }
  while (!inject) {
    const auto done = PENSTOCK_TRY(completed(sent_.get()));
    if (done) break;
  }
  return {};
}

Result<void> FiPort::receive(std::byte* to, std::size_t bytes) {
  if (!posted_)
    if (auto posted = post(to, bytes); !posted) return posted;
  for (;;) {
    const auto done = PENSTOCK_TRY(completed(received_.get()));
    if (done) break;
  }
  posted_ = false;
  return {};
}

// ---- one-sided ---------------------------------------------------------------------------------

Result<FiPort::Exposed> FiPort::expose(std::byte* at, std::size_t bytes) {
  fid_mr* region = nullptr;
  const std::uint64_t key = exposed_.size() + 1;
  const int mode = info_->domain_attr->mr_mode;
  int status = fi_mr_reg(domain_.get(), at, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0,
                         &region, nullptr);
  if (status != 0) return failed("fi_mr_reg", status);
  exposed_.emplace_back(region);
  if ((mode & FI_MR_ENDPOINT) != 0) {
    status = fi_mr_bind(region, &endpoint_->fid, 0);
    if (status == 0) status = fi_mr_enable(region);
    if (status != 0) return failed("fi_mr_enable", status);
  }
  const bool by_address = (mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC)) != 0;
  return Exposed{fi_mr_key(region), by_address ? reinterpret_cast<std::uintptr_t>(at) : 0};
}

Result<void> FiPort::finished(const char* call, ssize_t status) {
  if (status != 0) return failed(call, status);
  for (;;) {
    auto done = PENSTOCK_TRY(completed(sent_.get()));
    if (done) return {};
  }
}

Result<void> FiPort::put(const std::byte* from, std::size_t bytes, const Exposed& to) {
  const iovec local{const_cast<std::byte*>(from), bytes};
  const fi_rma_iov remote{to.address, bytes, to.key};
  const fi_msg_rma message{&local, nullptr, 1, peer_, &remote, 1, &send_context_, 0};
  ssize_t status;
  while ((status = fi_writemsg(endpoint_.get(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE)) ==
         -FI_EAGAIN)
    progress();
  return finished("fi_writemsg", status);
}

Result<void> FiPort::get(std::byte* to, std::size_t bytes, const Exposed& from) {
  ssize_t status;
  while ((status = fi_read(endpoint_.get(), to, bytes, nullptr, peer_, from.address, from.key,
                           &send_context_)) == -FI_EAGAIN)
    progress();
  return finished("fi_read", status);
}

void FiPort::progress() {
  (void)fi_cq_read(received_.get(), nullptr, 0);
}

}  // namespace penstock::bench
