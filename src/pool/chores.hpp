// Functions of higher layers, called at each heartbeat: Pool::on_beat().
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace penstock::pool {

/// Thread-safe.
class Chores {
 public:
  void set(const void* owner, std::function<void()> chore) {
    const std::lock_guard hold(mutex_);
    if (chore) {
      chores_[owner] = std::move(chore);
    } else {
      chores_.erase(owner);
    }
  }
  void run() {
    const std::lock_guard hold(mutex_);
    for (const auto& [owner, chore] : chores_) chore();
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::function<void()>> chores_;
};

}  // namespace penstock::pool
