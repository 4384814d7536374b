// Epochs in which the target takes part: fence, and post, start, complete, wait.
#include "base/format.hpp"
#include "window/impl.hpp"

namespace penstock::window {

Result<void> Window::fence(std::uint32_t asserts) {
  Impl& impl = *impl_;
  // both before any rank may put: written back later, our copies would overwrite its bytes
  if ((asserts & no_store) == 0) impl.exposure.send();
  if (auto all = impl.barrier.meet(impl.context.names().fence); !all) return all;
  if ((asserts & no_precede) == 0) impl.exposure.drop();
  for (std::uint32_t target = 0; target < ranks(); ++target) impl.reach.epoch_over(target);
  impl.fenced = (asserts & no_succeed) == 0;
  return {};
}

Result<void> Window::post(std::span<const std::uint32_t> group, std::uint32_t asserts) {
  Impl& impl = *impl_;
  if (impl.exposed)
    return fail(ErrorCode::mismatch, "the window is exposed already: call {} first",
                impl.context.names().wait);
  for (const std::uint32_t origin : group) {
    if (auto inside = impl.context.check_rank(origin); !inside) return inside;
  }
  PENSTOCK_TRY(impl.signals.prepare(group));
  impl.fenced = false;
  impl.exposed = true;
  impl.posted.assign(group.begin(), group.end());
  if ((asserts & no_store) == 0) impl.exposure.send();
  impl.signals.signal_open(group);
  impl.signals.await_complete(group);
  impl.missing = impl.posted;
  return {};
}

Result<void> Window::start(std::span<const std::uint32_t> group, std::uint32_t asserts) {
  Impl& impl = *impl_;
  if (impl.accessing)
    return fail(ErrorCode::mismatch, "an access epoch is open already: call {} first",
                impl.context.names().complete);
  for (const std::uint32_t target : group) {
    if (auto inside = impl.context.check_rank(target); !inside) return inside;
  }
  PENSTOCK_TRY(impl.signals.prepare(group));
  impl.signals.await_open(group);
  if ((asserts & no_check) == 0) {
    Missing missing(group.begin(), group.end());
    const auto look = [&impl, &missing] { impl.signals.remove_opened(missing); };
    if (auto all = impl.context.wait(impl.context.names().start, missing, look); !all) return all;
  }
  impl.fenced = false;
  impl.accessing = true;
  impl.started.assign(group.begin(), group.end());
  for (const std::uint32_t target : group) impl.reachable[target] = true;
  return {};
}

Result<void> Window::complete() {
  Impl& impl = *impl_;
  if (!impl.accessing)
    return fail(ErrorCode::mismatch, "no access epoch is open: call {} first",
                impl.context.names().start);
  impl.signals.signal_complete(impl.started);
  impl.accessing = false;
  for (const std::uint32_t target : impl.started) {
    impl.reachable[target] = false;
    impl.reach.epoch_over(target);
  }
  return {};
}

Result<void> Window::wait() {
  Impl& impl = *impl_;
  if (!impl.exposed)
    return fail(ErrorCode::mismatch, "the window is not exposed: call {} first",
                impl.context.names().post);
  const auto look = [&impl] { impl.signals.remove_completed(impl.missing); };
  if (auto all = impl.context.wait(impl.context.names().wait, impl.missing, look); !all) return all;
  impl.end_exposure();
  return {};
}

void Window::Impl::end_exposure() {
  exposed = false;
  exposure.drop();
  bool stored = false;
  for (const std::uint32_t origin : posted) {
    const auto put = signals.piggybacked(origin, context.own().bytes);
    if (!put) continue;
    exposure.store(*put);
    stored = true;
  }
  if (stored) context.memory.full_fence();  // from here on other ranks may get these bytes
}

Result<bool> Window::test() {
  Impl& impl = *impl_;
  if (!impl.exposed)
    return fail(ErrorCode::mismatch, "the window is not exposed: call {} first",
                impl.context.names().post);
  impl.signals.remove_completed(impl.missing);
  impl.exposure.serve();
  if (!impl.missing.empty()) {
    const std::uint32_t rank = impl.missing.front();
    impl.context.idle();
    auto alive = impl.context.check_alive(rank, impl.context.names().test);
    if (alive) return false;
    impl.signals.remove_completed(impl.missing);  // it may have completed just before it ended
    if (!impl.missing.empty() && impl.missing.front() == rank) return unexpected(alive.error());
    if (!impl.missing.empty()) return false;
  }
  impl.end_exposure();
  return true;
}

}  // namespace penstock::window
