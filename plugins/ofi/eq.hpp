// Event queue: events of objects, not of messages. All events come from calls in this process, so
// the kernel can wake waiting threads, unlike for completion queues.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "base/unique_fd.hpp"
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
  fi_wait_obj wait_object = FI_WAIT_NONE;
  base::UniqueFd wake_fd;  ///< FI_WAIT_FD: readable while there are events
  std::mutex mutex;
  std::condition_variable news;
  std::deque<Event> events;

  void push(Event event);
  void pop();  ///< the caller holds the mutex
  void push_av_complete(::fid* object, void* context, std::uint64_t count);
  void push_error(::fid* object, void* context, std::uint64_t data, int error);
};

}  // namespace penstock::ofi
