#include "capi/attachment.hpp"

#include <chrono>
#include <thread>
#include <vector>

#include "base/per_process.hpp"
#include "pool/process_end.hpp"

namespace penstock::capi {

namespace {

/// Open handles, and closed ones that calls still use; the oldest first.
struct OpenHandles {
  std::mutex mutex;
  std::list<AttachedHandle*> handles;
};

base::PerProcess<OpenHandles>& open_handles() {
  static auto* const open = new base::PerProcess<OpenHandles>;
  return *open;
}

std::atomic<bool> ends{false};

/// Ends the waits that use open handles, and returns the handles that no call uses.
std::vector<AttachedHandle*> take_all(OpenHandles& open, bool& used) {
  std::vector<AttachedHandle*> taken;
  const std::lock_guard hold(open.mutex);
  used = false;
  for (auto at = open.handles.rbegin(); at != open.handles.rend(); ++at) {
    AttachedHandle& handle = **at;
    if (handle.attachment->of_penstock) continue;  // Penstock's own libraries close them
    handle.cancel();
    if (handle.close_if_unused())
      taken.push_back(&handle);
    else
      used = true;
  }
  return taken;
}

/// Closes the handles that the program has left open, after its own exit handlers: releases locks,
/// undoes transactions, publishes stores. Communicators and messengers stay open, and their
/// attachments with them: other ranks may need them until the process has ended.
[[gnu::destructor]] void close_all_handles() {
  constexpr int looks = 100;
  constexpr std::chrono::milliseconds between{2};
  ends = true;
  pool::stay_mapped();
  OpenHandles& open = open_handles().here();
  bool used = true;
  for (int look = 0; look < looks && used; ++look) {
    if (look != 0) std::this_thread::sleep_for(between);
    for (AttachedHandle* handle : take_all(open, used)) handle->end();
  }
}

}  // namespace

bool process_is_ending() {
  return ends;
}

AttachedHandle::AttachedHandle(std::shared_ptr<Attachment> to) : attachment(std::move(to)) {
  OpenHandles& open = open_handles().here();
  const std::lock_guard hold(open.mutex);
  listed_ = open.handles.insert(open.handles.end(), this);
}

void AttachedHandle::end() noexcept {
  guarded([&] {
    release_contents();
    return PENSTOCK_OK;
  });
  OpenHandles& open = open_handles().here();
  {
    const std::lock_guard hold(open.mutex);
    open.handles.erase(listed_);
  }
  attachment.reset();
}

}  // namespace penstock::capi
