// Put, get and update.
#include "rma/rma.hpp"
#include "window/impl.hpp"

namespace penstock::window {

void Window::Impl::copy_in(std::uint32_t target, std::span<const Extent> extents,
                           const void* from) {
  std::byte* const to = context.segment(target);
  const auto* at = static_cast<const std::byte*>(from);
  for (const Extent& piece : extents) {
    rma::publish_range(context.memory, to + piece.at, at, piece.bytes);
    at += piece.bytes;
  }
}

void Window::Impl::copy_out(std::uint32_t target, std::span<const Extent> extents, void* to) {
  const std::byte* const from = context.segment(target);
  const auto& memory = context.memory;
  for (const Extent& piece : extents) memory.invalidate(from + piece.at, piece.bytes);
  memory.load_fence();
  auto* at = static_cast<std::byte*>(to);
  for (const Extent& piece : extents) {
    memory.load_bulk(at, from + piece.at, piece.bytes);
    at += piece.bytes;
  }
}

/// The put is ordered before the signal or release that ends the epoch.
Result<void> Window::put(std::uint32_t target, std::span<const Extent> extents, const void* from) {
  Impl& impl = *impl_;
  // a small put travels in the line that signals the end of the epoch, and the target stores it
  const bool with_signal = extents.size() == 1 && extents.front().bytes <= max_piggybacked &&
                           impl.accessing && target < ranks() && impl.reachable[target];
  if (with_signal) {
    PENSTOCK_TRY(impl.within(target, extents));
    if (impl.signals.piggyback(target, extents.front(), from)) {
      impl.count(extents);
      return {};
    }
  }
  if (auto entered = impl.enter(target, extents); !entered) return entered;
  impl.copy_in(target, extents, from);
  return {};
}

Result<void> Window::get(std::uint32_t target, std::span<const Extent> extents, void* to) {
  if (auto entered = impl_->enter(target, extents); !entered) return entered;
  impl_->copy_out(target, extents, to);
  return {};
}

Result<void> Window::update(std::uint32_t target, std::span<const Extent> extents,
                            const Change& change) {
  Impl& impl = *impl_;
  if (auto entered = impl.enter(target, extents); !entered) return entered;
  std::uint64_t bytes = 0;
  for (const Extent& piece : extents) bytes += piece.bytes;
  if (bytes == 0) return {};
  // the exclusive holder of the segment's lock needs no atomicity; unlock() publishes it
  if (impl.passive[target] == Impl::Passive::exclusive) {
    impl.change(target, extents, bytes, change);
    return {};
  }
  constexpr const char* what = "an update of a window";
  SegmentLocks& wanted = impl.locks_of(target);
  const auto turn = PENSTOCK_TRY(impl.context.turn(what, wanted.taken(Guarded::update)));
  sync::OpenLock& lock = *PENSTOCK_TRY(wanted.lock(Guarded::update));
  auto acquired = impl.acquire(lock, target, sync::Hold::exclusive, what);
  if (!acquired) return acquired;
  impl.change(target, extents, bytes, change);
  lock.release();
  return {};
}

/// No other thread of this rank can intervene, because nothing here waits. A rank that was stopped
/// after its look and declared dead would undo later changes of others: it exits.
void Window::Impl::change(std::uint32_t target, std::span<const Extent> extents,
                          std::uint64_t bytes, const Change& how) {
  if (packed.size() < bytes) packed.resize(bytes);
  copy_out(target, extents, packed.data());
  if (!how(packed.data())) return;
  context.pool.confirm();
  copy_in(target, extents, packed.data());
}

}  // namespace penstock::window
