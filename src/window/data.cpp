// Put, get and update.
#include "penstock/rma.hpp"
#include "window/impl.hpp"

namespace penstock::window {

void Window::Impl::copy_in(std::uint32_t target, std::span<const Piece> pieces, const void* from) {
  std::byte* const to = context.segment(target);
  const auto* at = static_cast<const std::byte*>(from);
  for (const Piece& piece : pieces) {
    rma::publish_range(context.memory, to + piece.at, at, piece.bytes);
    at += piece.bytes;
  }
}

void Window::Impl::copy_out(std::uint32_t target, std::span<const Piece> pieces, void* to) {
  const std::byte* const from = context.segment(target);
  const auto& memory = context.memory;
  for (const Piece& piece : pieces) memory.invalidate(from + piece.at, piece.bytes);
  memory.settle();
  auto* at = static_cast<std::byte*>(to);
  for (const Piece& piece : pieces) {
    memory.load_bulk(at, from + piece.at, piece.bytes);
    at += piece.bytes;
  }
}

/// Ordered before whatever ends the epoch tells of it.
Result<void> Window::put(std::uint32_t target, std::span<const Piece> pieces, const void* from) {
  Impl& impl = *impl_;
  // A small one goes with what tells the target that the epoch is complete, which stores it.
  const bool with_signal = pieces.size() == 1 && pieces.front().bytes <= most_carried &&
                           impl.accessing && target < ranks() && impl.reachable[target];
  if (with_signal) {
    if (auto within = impl.within(target, pieces); !within) return unexpected(within.error());
    if (impl.signals.carry(target, pieces.front(), from)) return {};
  }
  if (auto entered = impl.enter(target, pieces); !entered) return entered;
  impl.copy_in(target, pieces, from);
  return {};
}

Result<void> Window::get(std::uint32_t target, std::span<const Piece> pieces, void* to) {
  if (auto entered = impl_->enter(target, pieces); !entered) return entered;
  impl_->copy_out(target, pieces, to);
  return {};
}

Result<void> Window::update(std::uint32_t target, std::span<const Piece> pieces,
                            const Change& change) {
  Impl& impl = *impl_;
  if (auto entered = impl.enter(target, pieces); !entered) return entered;
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  if (bytes == 0) return {};
  // Who has the segment's lock alone has nobody to be atomic towards; unlock() orders it.
  if (impl.passive[target] == Impl::Passive::exclusive) {
    impl.change(target, pieces, bytes, change);
    return {};
  }
  constexpr const char* what = "an update of a window";
  Impl::RankLock& wanted = impl.update_lock(target);
  const auto turn = impl.context.turn(what, wanted.taken);
  if (!turn) return unexpected(turn.error());
  auto acquired = impl.acquire(*wanted.lock, target, sync::Hold::exclusive, what);
  if (!acquired) return acquired;
  impl.change(target, pieces, bytes, change);
  wanted.lock->release();
  return {};
}

/// No other thread of this rank comes in between: nothing waits here.
void Window::Impl::change(std::uint32_t target, std::span<const Piece> pieces, std::uint64_t bytes,
                          const Change& how) {
  if (packed.size() < bytes) packed.resize(bytes);
  copy_out(target, pieces, packed.data());
  if (how(packed.data())) copy_in(target, pieces, packed.data());
}

}  // namespace penstock::window
