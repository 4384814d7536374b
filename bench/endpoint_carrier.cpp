#include "bench/endpoint_carrier.hpp"

#include <cstring>

namespace penstock::bench {

Result<std::unique_ptr<EndpointCarrier>> EndpointCarrier::open(arena::Arena& arena) {
  auto carrier = std::make_unique<EndpointCarrier>();
  auto endpoint = transport::Endpoint::open(arena, *carrier, {"bench"});
  if (!endpoint) return unexpected(endpoint.error());
  carrier->pool_ = &arena.pool();
  carrier->endpoint_ = std::move(*endpoint);
  carrier->inject_bytes_ = carrier->endpoint_->limits().inject_bytes;
  return carrier;
}

Result<void> EndpointCarrier::connect(const transport::Address& peer) {
  auto resolved = endpoint_->resolve(peer);
  if (!resolved) return unexpected(resolved.error());
  peer_ = *resolved;
  return {};
}

Result<void> EndpointCarrier::send(const std::byte* data, std::size_t bytes) {
  const transport::Header header{.bytes = bytes};
  if (bytes <= inject_bytes_ && !pool_->offset_of(data)) {  // what is injected is always copied
    for (;;) {
      auto injected = endpoint_->try_inject(peer_, header, data);
      if (!injected) return unexpected(injected.error());
      if (*injected) return {};
      endpoint_->progress();
      if (failure_) return unexpected(*failure_);
    }
  }
  op_ = {};
  op_.header = header;
  op_.iov[0] = {const_cast<std::byte*>(data), bytes};
  op_.iov_count = 1;
  sent_ = false;
  auto complete = endpoint_->send(peer_, &op_);
  if (!complete) return unexpected(complete.error());
  while (!*complete && !sent_) {
    endpoint_->progress();
    if (failure_) return unexpected(*failure_);
  }
  return {};
}

bool EndpointCarrier::poll(std::byte* to) {
  target_ = to;
  if (arrived_ == taken_) endpoint_->progress();
  if (arrived_ == taken_) return false;
  ++taken_;
  return true;
}

Result<void> EndpointCarrier::receive(std::byte* to, std::size_t) {
  while (!poll(to))
    if (failure_) return unexpected(*failure_);
  return {};
}

void EndpointCarrier::on_message(transport::Peer, const transport::Header& header,
                                 const void* payload) {
  if (target_ != nullptr) std::memcpy(target_, payload, header.bytes);
  ++arrived_;
}

transport::Landing EndpointCarrier::on_begin(transport::Peer, const transport::Header& header) {
  landing_ = {target_, target_ != nullptr ? header.bytes : 0};
  return {&landing_, 1, nullptr};
}

void EndpointCarrier::on_peer_dead(transport::Peer, const std::string& description) {
  if (!failure_) failure_ = Error{Code::peer_dead, description};
}

}  // namespace penstock::bench
