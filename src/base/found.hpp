// Answers of the dynamic linker, which are kept for good. The initialization of a
// static would hold a lock while it waits for the linker's, and another thread may hold the
// linker's: one whose library calls us while it is loaded. A library that we load may call us too.
#pragma once

#include <atomic>
#include <memory>

namespace penstock::base {

template <class Value>
class Found {
 public:
  constexpr Found() = default;
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;

  /// `find()` finds it at the first call. It may run in several threads at once, and call this
  /// again: all get what the first one to end has found.
  template <class Find>
  const Value& get(const Find& find) {
    if (const Value* const known = known_.load(std::memory_order_acquire)) return *known;
    auto found = std::make_unique<const Value>(find());
    const Value* first = nullptr;
    if (known_.compare_exchange_strong(first, found.get(), std::memory_order_acq_rel))
      return *found.release();
    return *first;
  }

 private:
  std::atomic<const Value*> known_{nullptr};  ///< never freed: calls may come from exit handlers
};

}  // namespace penstock::base
