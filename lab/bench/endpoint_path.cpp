#include "bench/endpoint_path.hpp"

#include <cstring>

namespace penstock::bench {

Result<std::unique_ptr<EndpointPath>> EndpointPath::open(arena::Arena& arena) {
  auto path = std::make_unique<EndpointPath>();
  auto endpoint = PENSTOCK_TRY(transport::Endpoint::open(arena, *path, {"bench"}));
  path->pool_ = &arena.pool();
  path->endpoint_ = std::move(endpoint);
  path->inject_bytes_ = path->endpoint_->limits().inject_bytes;
  return path;
}

Result<void> EndpointPath::connect(const transport::Address& peer) {
  peer_ = PENSTOCK_TRY(endpoint_->resolve(peer));
  return {};
}

Result<void> EndpointPath::send(const std::byte* data, std::size_t bytes) {
  const transport::Header header{.bytes = bytes};
  if (bytes <= inject_bytes_ && !pool_->offset_of(data)) {  // inject always copies
    for (;;) {
      auto injected = PENSTOCK_TRY(endpoint_->try_inject(peer_, header, data));
      if (injected) return {};
      look();
      if (failure_) return unexpected(*failure_);
    }
  }
  op_ = {};
  op_.header = header;
  op_.iov[0] = {const_cast<std::byte*>(data), bytes};
  op_.iov_count = 1;
  sent_ = false;
  auto complete = PENSTOCK_TRY(endpoint_->send(peer_, &op_));
  while (!complete && !sent_) {
    look();
    if (failure_) return unexpected(*failure_);
  }
  return {};
}

bool EndpointPath::poll(std::byte* to) {
  target_ = to;
  if (arrived_ == taken_) endpoint_->progress();
  if (arrived_ == taken_) return false;
  ++taken_;
  return true;
}

Result<void> EndpointPath::receive(std::byte* to, std::size_t) {
  while (!poll(to)) {
    if (failure_) return unexpected(*failure_);
    found_nothing();
  }
  return {};
}

void EndpointPath::look() {
  if (endpoint_->progress() == 0) found_nothing();
}

transport::ReceiveBuffer EndpointPath::on_message(const transport::Message& message) {
  if (message.payload != nullptr) {
    if (target_ != nullptr) std::memcpy(target_, message.payload, message.header.bytes);
    ++arrived_;
    return {};
  }
  receive_buffer_ = {target_, target_ != nullptr ? message.header.bytes : 0};
  return {.iov = &receive_buffer_, .iov_count = 1, .arrival = this};
}

void EndpointPath::on_peer_dead(transport::Peer, const std::string& description) {
  if (!failure_) failure_ = Error{ErrorCode::peer_dead, description};
}

}  // namespace penstock::bench
