#include "windows.hpp"

#include <thread>
#include <unordered_map>

namespace penstock::mpi {

std::atomic<std::uint32_t> pool_windows{0};

void PoolWindow::let_others_in() {
  constexpr int most_yields = 1000;
  if (!guarded) return;
  mutex.unlock();
  // A mutex is not fair: who gives it up and takes it again would find it free.
  for (int i = 0; i < most_yields && waiting.load() != 0; ++i) std::this_thread::yield();
  mutex.lock();
}

namespace {

std::mutex table_mutex;
std::unordered_map<Handle, std::unique_ptr<PoolWindow>>& table() {
  static auto* windows = new std::unordered_map<Handle, std::unique_ptr<PoolWindow>>;
  return *windows;  // never destroyed: calls may come from exit handlers
}
/// Changes with the table, so that what a thread remembers is forgotten.
std::atomic<std::uint64_t> version{1};

struct Remembered {
  Handle handle = 0;
  std::uint64_t version = 0;
  PoolWindow* window = nullptr;
};
thread_local Remembered last;

}  // namespace

PoolWindow* look_up_window(Handle win) {
  const std::uint64_t now = version.load(std::memory_order_acquire);
  if (last.handle == win && last.version == now) return last.window;
  const std::lock_guard<std::mutex> guard(table_mutex);
  const auto found = table().find(win);
  last = {win, version.load(), found != table().end() ? found->second.get() : nullptr};
  return last.window;
}

void add_window(std::unique_ptr<PoolWindow> window) {
  const std::lock_guard<std::mutex> guard(table_mutex);
  const Handle handle = window->handle;
  table()[handle] = std::move(window);
  version.fetch_add(1);
  pool_windows.store(static_cast<std::uint32_t>(table().size()));
}

std::unique_ptr<PoolWindow> take_window(Handle win) {
  const std::lock_guard<std::mutex> guard(table_mutex);
  const auto found = table().find(win);
  if (found == table().end()) return nullptr;
  auto window = std::move(found->second);
  table().erase(found);
  version.fetch_add(1);
  pool_windows.store(static_cast<std::uint32_t>(table().size()));
  return window;
}

}  // namespace penstock::mpi
