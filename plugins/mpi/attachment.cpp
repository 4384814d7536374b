#include "attachment.hpp"

#include <cstdlib>
#include <mutex>

#include "base/env.hpp"
#include "fallback.hpp"
#include "pool_comms.hpp"
#include "progress_thread.hpp"
#include "queue_thread.hpp"
#include "windows.hpp"

namespace penstock::mpi {

namespace {

std::mutex mutex;
bool tried = false;
std::atomic<Attachment*> current{nullptr};

}  // namespace

bool pool_is_named() {
  return !base::env_text("PENSTOCK_POOL").empty();
}

Attachment* attachment() {
  if (Attachment* there = current.load(std::memory_order_acquire)) return there;
  const std::lock_guard<std::mutex> guard(mutex);
  if (tried) return current.load();
  tried = true;
  if (!pool_is_named()) return nullptr;
  auto session = plugin::open_session();
  if (!session) {
    refuse(session.error().message);
    return nullptr;
  }
  current.store(new Attachment(std::move(*session)), std::memory_order_release);
  // A program that uses only MPI sessions never calls MPI_Finalize.
  std::atexit(detach);
  return current.load();
}

void detach() {
  // A forked child has no service threads and owns nothing in the pool, and may have inherited a
  // locked mutex.
  if (const Attachment* const there = current; there != nullptr && !there->pool().attached_here())
    return;
  end_queue_thread();
  drop_all_comms();
  end_all_progress();  // a program may end without freeing its windows
  // Write back stores to peers' segments. Exit handlers that call the MPI find no window.
  for (const auto& window : take_all_windows()) {
    window->core->publish_stores();
    if (Attachment* const there = current) defer_reclaim(*window, there->memory);
  }
  const std::lock_guard<std::mutex> guard(mutex);
  delete current.exchange(nullptr);
}

}  // namespace penstock::mpi
