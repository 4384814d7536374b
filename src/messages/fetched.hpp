// Announced messages whose payload was fetched, by the token of the fetch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "transport/transport.hpp"

namespace penstock::messages {

/// T has `transport::Peer announcer() const` and `std::uint64_t id`, which the sender chose.
template <class T>
class Fetched {
 public:
  /// Returns the token.
  std::uint64_t add(T* message) {
    if (free_.empty()) {
      by_token_.push_back(nullptr);
      free_.push_back(static_cast<std::uint32_t>(by_token_.size()));
    }
    const std::uint32_t token = free_.back();
    free_.pop_back();
    by_token_[token - 1] = message;
    return token;
  }
  /// Returns the message that a payload belongs to, and forgets it; null if there is none. Token 0:
  /// the sender had no fetch, and sends the payload all the same.
  T* take(transport::Peer from, std::uint64_t id, std::uint64_t token) {
    const auto is_it = [&](const T* one) {
      return one != nullptr && one->announcer() == from && one->id == id;
    };
    auto at = by_token_.end();
    if (token == 0)
      at = std::find_if(by_token_.begin(), by_token_.end(), is_it);
    else if (token <= by_token_.size() && is_it(by_token_[token - 1]))
      at = by_token_.begin() + static_cast<std::ptrdiff_t>(token - 1);
    return at == by_token_.end() ? nullptr : take(at);
  }
  /// Forgets each message of a peer that has left, and then calls `act` for it.
  template <class Act>
  void take_all_of(transport::Peer peer, Act&& act) {
    for (std::size_t at = 0; at < by_token_.size(); ++at)
      if (by_token_[at] != nullptr && by_token_[at]->announcer() == peer)
        act(take(by_token_.begin() + static_cast<std::ptrdiff_t>(at)));
  }

 private:
  T* take(typename std::vector<T*>::iterator at) {
    T* const message = *at;
    *at = nullptr;
    free_.push_back(static_cast<std::uint32_t>(at - by_token_.begin()) + 1);
    return message;
  }

  std::vector<T*> by_token_;
  std::vector<std::uint32_t> free_;
};

}  // namespace penstock::messages
