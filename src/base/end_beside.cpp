#include "base/end_beside.hpp"

#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/service_thread.hpp"

namespace penstock::base {

void end_beside(const char* name, std::function<void()> end, std::chrono::nanoseconds patience) {
  const auto task = std::make_shared<std::packaged_task<void()>>(std::move(end));
  const auto ended = task->get_future();
  try {
    start_service_thread(name, [task] { (*task)(); }).detach();
  } catch (const std::system_error&) {
    (*task)();  // no thread can be started
  }
  (void)ended.wait_for(patience);
}

}  // namespace penstock::base
