#include "held_handles.hpp"

namespace penstock::mpi {

void HeldHandles::hold(Held kind, Handle handle) {
  const std::lock_guard<std::mutex> guard(mutex_);
  ++uses_[static_cast<std::size_t>(kind)][handle].number;
  held_.fetch_add(1);
}

bool HeldHandles::release(Held kind, Handle handle) {
  const std::lock_guard<std::mutex> guard(mutex_);
  auto& of_kind = uses_[static_cast<std::size_t>(kind)];
  const auto found = of_kind.find(handle);
  held_.fetch_sub(1);
  if (--found->second.number != 0) return false;
  const bool freed = found->second.freed;
  of_kind.erase(found);
  return freed;
}

bool HeldHandles::put_off(Held kind, Handle handle) {
  if (!any()) return false;
  const std::lock_guard<std::mutex> guard(mutex_);
  auto& of_kind = uses_[static_cast<std::size_t>(kind)];
  const auto found = of_kind.find(handle);
  if (found == of_kind.end()) return false;
  found->second.freed = true;
  return true;
}

HeldHandles& held_handles() {
  static auto* all = new HeldHandles;  // never destroyed: calls may come from exit handlers
  return *all;
}

}  // namespace penstock::mpi
