#include "base/fork.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace penstock::base {

/// An entry in the list of all descriptors. A child that walks the list must not allocate.
struct KeptFd {
  int fd;
  KeptFd* previous = nullptr;
  KeptFd* next = nullptr;
};

namespace {

std::atomic<std::uint64_t> forks{0};  ///< from the first process that asked down to this one

/// Guards the list of descriptors. Never destroyed: exit handlers may close descriptors.
std::mutex& guard() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
KeptFd* first = nullptr;

void before_fork() {
  guard().lock();
}
void in_parent() {
  guard().unlock();
}
void in_child() {
  forks.fetch_add(1, std::memory_order_relaxed);
  for (KeptFd* kept = first; kept != nullptr; kept = kept->next) {
    if (kept->fd >= 0) ::close(kept->fd);
    kept->fd = -1;
  }
  guard().unlock();
}

void watch_forks() {
  static const int watched = pthread_atfork(before_fork, in_parent, in_child);
  (void)watched;
}

}  // namespace

Origin::Origin() {
  watch_forks();
  forks_ = forks.load(std::memory_order_relaxed);
}

bool Origin::here() const {
  return forks_ == forks.load(std::memory_order_relaxed);
}

ProcessFd::ProcessFd() = default;

ProcessFd::ProcessFd(int fd) {
  if (fd < 0) return;
  watch_forks();
  kept_ = std::make_unique<KeptFd>(KeptFd{.fd = fd});
  const std::lock_guard lock(guard());
  kept_->next = std::exchange(first, kept_.get());
  if (kept_->next != nullptr) kept_->next->previous = kept_.get();
}

ProcessFd::ProcessFd(ProcessFd&& other) noexcept = default;

ProcessFd& ProcessFd::operator=(ProcessFd&& other) noexcept {
  std::swap(kept_, other.kept_);
  return *this;
}

ProcessFd::~ProcessFd() {
  if (kept_ == nullptr) return;
  const std::lock_guard lock(guard());
  (kept_->previous != nullptr ? kept_->previous->next : first) = kept_->next;
  if (kept_->next != nullptr) kept_->next->previous = kept_->previous;
  if (kept_->fd >= 0) ::close(kept_->fd);
}

int ProcessFd::get() const {
  return kept_ != nullptr ? kept_->fd : -1;
}

}  // namespace penstock::base
