// Event queue: what is told about objects rather than about messages.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "domain.hpp"

namespace penstock::ofi {

struct Eq : fid_eq {
  struct Event {
    std::uint32_t kind = 0;
    std::vector<unsigned char> bytes;
    bool is_error = false;
    fi_eq_err_entry error{};
  };
  Fabric* fabric = nullptr;
  std::atomic<int> users{0};
  std::mutex mutex;
  std::deque<Event> events;

  void push_av_complete(::fid* object, void* context, std::uint64_t count);
  void push_error(::fid* object, void* context, std::uint64_t data, int error);
};

}  // namespace penstock::ofi
