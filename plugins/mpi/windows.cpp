#include "windows.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace penstock::mpi {

std::atomic<std::uint32_t> pool_windows{0}, windows_with_atomics{0};

namespace {

std::mutex table_mutex;
std::unordered_map<Handle, std::unique_ptr<PoolWindow>>& table() {
  static auto* windows = new std::unordered_map<Handle, std::unique_ptr<PoolWindow>>;
  return *windows;  // never destroyed: calls may come from exit handlers
}
/// Incremented with every change of the table, to invalidate the windows that threads cache.
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
  if (window->with_atomics) windows_with_atomics.fetch_add(1);
  table()[handle] = std::move(window);
  version.fetch_add(1);
  pool_windows.store(static_cast<std::uint32_t>(table().size()));
}

void for_each_window(const std::function<void(PoolWindow&)>& call) {
  const std::lock_guard<std::mutex> guard(table_mutex);
  for (const auto& [handle, window] : table()) call(*window);
}

std::vector<std::unique_ptr<PoolWindow>> take_all_windows() {
  const std::lock_guard<std::mutex> guard(table_mutex);
  std::vector<std::unique_ptr<PoolWindow>> all;
  for (auto& [handle, window] : table()) all.push_back(std::move(window));
  table().clear();
  version.fetch_add(1);
  pool_windows.store(0);
  windows_with_atomics.store(0);
  return all;
}

void end_order_by_atomics(PoolWindow& window) {
  const std::lock_guard<std::mutex> guard(table_mutex);
  if (window.with_atomics.exchange(false)) windows_with_atomics.fetch_sub(1);
}

bool have_windows_of_sessions() {
  const std::lock_guard<std::mutex> guard(table_mutex);
  return std::any_of(table().begin(), table().end(),
                     [](const auto& entry) { return entry.second->owns_self; });
}

std::unique_ptr<PoolWindow> take_window(Handle win) {
  const std::lock_guard<std::mutex> guard(table_mutex);
  const auto found = table().find(win);
  if (found == table().end()) return nullptr;
  auto window = std::move(found->second);
  if (window->with_atomics) windows_with_atomics.fetch_sub(1);
  table().erase(found);
  version.fetch_add(1);
  pool_windows.store(static_cast<std::uint32_t>(table().size()));
  return window;
}

void defer_reclaim(const PoolWindow& window, PoolMemory& memory) {
  for (const auto& object : window.objects) memory.defer_reclaim(object);
  const auto bytes = static_cast<std::uint64_t>(window.size);
  const auto of_program = bytes != 0 ? memory.block_of(window.base, bytes) : std::nullopt;
  if (of_program) memory.defer_reclaim(*of_program);
  memory.defer_bell_reclaim();
}

}  // namespace penstock::mpi
