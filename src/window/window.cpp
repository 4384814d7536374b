// Opening and leaving a window, and the checks which accesses its epochs allow.
#include "base/format.hpp"
#include "base/log.hpp"
#include "pool/job_counts.hpp"
#include "window/impl.hpp"

namespace penstock::window {

namespace {

Result<void> check(const pool::Pool& pool, const Options& options) {
  const auto ranks = static_cast<std::uint32_t>(options.members.size());
  if (options.self >= ranks)
    return fail(ErrorCode::invalid_argument, "rank {} of a window of {} ranks", options.self,
                ranks);
  if (!options.more) return fail(ErrorCode::invalid_argument, "a window lacks Options::more");
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Member& member = options.members[rank];
    if (member.bytes != 0 && pool.at(member.offset, member.bytes) == nullptr)
      return fail(ErrorCode::wrong_format,
                  "the segment of rank {}, {} bytes at {:#x}, lies outside pool {}", rank,
                  member.bytes, member.offset, pool.info().spec);
    if (member.words % line_bytes != 0 || pool.at(member.words, rank_words_bytes) == nullptr)
      return fail(ErrorCode::wrong_format,
                  "the words of rank {} of a window, at {:#x}, lie outside pool {}", rank,
                  member.words, pool.info().spec);
  }
  return {};
}

}  // namespace

std::uint64_t words_bytes() {
  return rank_words_bytes;
}

/// Other ranks read the words only after this rank has announced them.
void clear_words(const coherence::Memory& memory, void* words, std::uint64_t bytes) {
  static constexpr std::byte zeros[line_bytes] = {};
  for (std::uint64_t at = 0; at < bytes; at += line_bytes)
    memory.publish_line(static_cast<std::byte*>(words) + at, zeros);
  memory.store_fence();
}

Result<std::uint64_t> Context::more(std::uint64_t bytes) const {
  const std::uint64_t place = PENSTOCK_TRY(options.more(bytes));
  clear_words(memory, at(place), bytes);
  return place;
}

Window::Impl::Impl(pool::Pool& pool, Options options)
    : context(pool, std::move(options)),
      directory(context),
      signals(context, directory),
      exposure(context, directory, signals),
      reach(context, directory, signals),
      barrier(
          context, [this](std::uint32_t rank) { return context.line(RankLine::barrier, rank); },
          context.options.fences),
      reachable(context.ranks()),
      passive(context.ranks(), Passive::none) {
  if (exposure.may_get_requests()) context.serve_by([this] { exposure.serve(); });
}

Result<std::unique_ptr<Window>> Window::open(pool::Pool& pool, Options options) {
  PENSTOCK_TRY(check(pool, options));
  auto impl = std::make_unique<Impl>(pool, std::move(options));
  // invalidates copies from an earlier owner of the space
  impl->exposure.drop_all();
  return std::unique_ptr<Window>(new Window(std::move(impl)));
}

Window::Window(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Window::~Window() = default;

Result<void> Window::leave() {
  Impl& impl = *impl_;
  if (impl.leaving == Impl::Leaving::done) return {};
  begin_leave();
  auto all = impl.barrier.await_others(impl.context.names().leave);
  // Later loads find the puts made meanwhile. Dirty lines are written back even if a rank has died:
  // otherwise they would overwrite data of the next user of the space.
  impl.exposure.drop_all();
  if (all) impl.leaving = Impl::Leaving::done;
  return all;
}

void Window::publish_stores() {
  impl_->exposure.drop_all();
}

/// Others may still put and send requests until all ranks have called this.
void Window::begin_leave() {
  using Leaving = Impl::Leaving;
  if (impl_->leaving != Leaving::no) return;
  impl_->leaving = Leaving::arrived;
  impl_->exposure.send();
  impl_->barrier.arrive();
}

std::uint32_t Window::ranks() const {
  return impl_->context.ranks();
}
std::uint32_t Window::self() const {
  return impl_->context.self();
}
std::byte* Window::segment(std::uint32_t rank) const {
  return impl_->context.segment(rank);
}
const Member& Window::member(std::uint32_t rank) const {
  return impl_->context.member(rank);
}
void Window::store_fence() {
  impl_->context.memory.store_fence();
}
bool Window::may_get_requests() const {
  return impl_->exposure.may_get_requests();
}
bool Window::serve() {
  if (impl_->leaving == Impl::Leaving::arrived) impl_->barrier.pass_on();
  return impl_->exposure.serve();
}

// ---- access checks -----------------------------------------------------------------------------

Result<void> Window::Impl::enter(std::uint32_t target) {
  if (auto inside = context.check_rank(target); !inside) return inside;
  if (passive[target] != Passive::none || reachable[target]) return {};
  if (all_locked) {
    if (all_unchecked) {
      passive[target] = Passive::unchecked;
      return {};
    }
    return acquire_epoch(target, sync::Hold::shared, context.names().lock_all);
  }
  if (fenced) return {};
  return fail(ErrorCode::mismatch,
              "no epoch of this window reaches rank {}: call {}, {} with it in the group, {} or {} "
              "first",
              target, context.names().fence, context.names().start, context.names().lock,
              context.names().lock_all);
}

Result<Range> Window::Impl::within(std::uint32_t target, std::span<const Extent> extents) const {
  const std::uint64_t limit = context.member(target).bytes;
  std::uint64_t from = ~std::uint64_t{0}, to = 0;
  for (const Extent& piece : extents) {
    if (piece.at > limit || piece.bytes > limit - piece.at)
      return fail(ErrorCode::invalid_argument,
                  "{} bytes at {} are not within the {} bytes that rank {} has in this window",
                  piece.bytes, piece.at, limit, target);
    from = std::min(from, piece.at);
    to = std::max(to, piece.at + piece.bytes);
  }
  return Range{from, to};
}

namespace {

pool::JobCounter operations("one-sided operations");

}  // namespace

void Window::Impl::count(std::span<const Extent> extents) {
  std::uint64_t bytes = 0;
  for (const Extent& piece : extents) bytes += piece.bytes;
  operations.add(bytes);
}

Result<void> Window::Impl::enter(std::uint32_t target, std::span<const Extent> extents) {
  context.pool.confirm();
  if (auto entered = enter(target); !entered) return entered;
  if (extents.empty()) return {};
  const auto range = PENSTOCK_TRY(within(target, extents));
  count(extents);
  return reach.ensure(target, range.first, range.end, passive[target] != Passive::none);
}

// ---- locks -------------------------------------------------------------------------------------

Result<void> Window::Impl::acquire(sync::OpenLock& lock, std::uint32_t target, sync::Hold hold,
                                   const char* what) {
  group::Waiting waiting(context.pool);
  const auto meanwhile = [&] {
    context.idle();
    waiting.look([&] {
      return fmt::format("{}: waits for the lock of {}", what,
                         context.pool.describe(context.token(target)));
    });
  };
  for (;;) {
    auto acquired = lock.acquire(0, hold, std::cref(meanwhile));
    if (acquired || acquired.error().code != ErrorCode::deadline) return acquired;
    base::log(base::Level::warn, "{} of rank {} waits on: {}", what, target,
              acquired.error().message);
  }
}

Result<void> Window::Impl::acquire_epoch(std::uint32_t target, sync::Hold hold, const char* what) {
  SegmentLocks& wanted = locks_of(target);
  const auto turn = PENSTOCK_TRY(context.turn(what, wanted.taken(Guarded::epoch)));
  if (passive[target] != Passive::none) return {};
  auto acquired = acquire(*PENSTOCK_TRY(wanted.lock(Guarded::epoch)), target, hold, what);
  if (acquired) passive[target] = hold == sync::Hold::shared ? Passive::shared : Passive::exclusive;
  return acquired;
}

Result<void> Window::Impl::release(std::uint32_t target) {
  const Passive held = passive[target];
  passive[target] = Passive::none;
  if (held == Passive::unchecked) {
    context.memory.full_fence();
  } else {
    PENSTOCK_TRY(locks_of(target).lock(Guarded::epoch))->release();
  }
  return context.check_alive(target, context.names().unlock);
}

Result<void> Window::lock(std::uint32_t target, sync::Hold hold, std::uint32_t asserts) {
  Impl& impl = *impl_;
  if (auto inside = impl.context.check_rank(target); !inside) return inside;
  if (impl.passive[target] != Impl::Passive::none || impl.all_locked)
    return fail(ErrorCode::mismatch, "rank {} is locked already: call {} first", target,
                impl.context.names().unlock);
  if (auto alive = impl.context.check_alive(target, impl.context.names().lock); !alive)
    return alive;
  if ((asserts & no_check) != 0) {
    impl.passive[target] = Impl::Passive::unchecked;
  } else {
    auto acquired = impl.acquire_epoch(target, hold, impl.context.names().lock);
    if (!acquired) return acquired;
  }
  if (target == self()) {
    impl.exposure.send();
    impl.exposure.drop();
  }
  return {};
}

Result<void> Window::unlock(std::uint32_t target) {
  Impl& impl = *impl_;
  if (auto inside = impl.context.check_rank(target); !inside) return inside;
  if (impl.passive[target] == Impl::Passive::none || impl.all_locked)
    return fail(ErrorCode::mismatch, "rank {} is not locked: call {} first", target,
                impl.context.names().lock);
  if (target == self()) impl.exposure.send();
  return impl.release(target);
}

Result<void> Window::lock_all(std::uint32_t asserts) {
  Impl& impl = *impl_;
  if (impl.all_locked)
    return fail(ErrorCode::mismatch, "all are locked already: call {} first",
                impl.context.names().unlock_all);
  impl.all_locked = true;
  impl.all_unchecked = (asserts & no_check) != 0;
  impl.exposure.send();
  impl.exposure.drop();
  return {};
}

Result<void> Window::unlock_all() {
  Impl& impl = *impl_;
  if (!impl.all_locked)
    return fail(ErrorCode::mismatch, "not all are locked: call {} first",
                impl.context.names().lock_all);
  impl.all_locked = false;
  impl.exposure.send();
  Result<void> done;
  for (std::uint32_t target = 0; target < ranks(); ++target) {
    if (impl.passive[target] == Impl::Passive::none) continue;
    if (auto released = impl.release(target); !released && done) done = released;
  }
  return done;
}

Result<void> Window::flush(std::uint32_t target) {
  Impl& impl = *impl_;
  if (auto inside = impl.context.check_rank(target); !inside) return inside;
  if (impl.passive[target] == Impl::Passive::none && !impl.all_locked)
    return fail(ErrorCode::mismatch, "rank {} is not locked: call {} first", target,
                impl.context.names().lock);
  impl.context.memory.full_fence();
  return impl.context.check_alive(target, impl.context.names().flush);
}

Result<void> Window::flush_all() {
  Impl& impl = *impl_;
  impl.context.memory.full_fence();
  for (std::uint32_t target = 0; target < ranks(); ++target) {
    if (impl.passive[target] == Impl::Passive::none) continue;
    if (auto alive = impl.context.check_alive(target, impl.context.names().flush_all); !alive)
      return alive;
  }
  return {};
}

Result<void> Window::sync() {
  impl_->exposure.send();
  impl_->context.memory.full_fence();  // also for loads of coherent memory
  impl_->exposure.drop();
  return {};
}

void Window::publish_own() {
  impl_->exposure.publish_lock_ranges();
}

void Window::observe_own() {
  impl_->exposure.invalidate_lock_ranges();
}

std::uint64_t Window::bytes_to_observe() const {
  return impl_->exposure.lock_range_bytes();
}

}  // namespace penstock::window
