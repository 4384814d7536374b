// How communicators end: an abort returns when the GPU accesses no buffers of its calls any more
// (docs/decisions/0053-an-abort-waits-for-the-gpu.md).
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/end_beside.hpp"
#include "base/log.hpp"
#include "nccl/communicator.hpp"

namespace nccl = penstock::nccl;

namespace {

/// The communicators of this process. Kept for ever: an aborted one may outlive static objects.
struct All {
  std::mutex mutex;
  std::vector<ncclComm*> comms;
  std::chrono::steady_clock::time_point aborted_since;  ///< the first of the ends that still run
};
All& all() {
  static All& made = *new All;
  return made;
}

/// Call this before an end begins.
void note_abort() {
  if (!penstock::base::await_ends({})) return;
  const std::lock_guard<std::mutex> guard(all().mutex);
  all().aborted_since = std::chrono::steady_clock::now();
}

std::chrono::steady_clock::time_point aborted_since() {
  const std::lock_guard<std::mutex> guard(all().mutex);
  return all().aborted_since;
}

/// A stream of the program may wait for such a one.
bool is_any_busy() {
  const std::lock_guard<std::mutex> guard(all().mutex);
  return std::any_of(all().comms.begin(), all().comms.end(),
                     [](const ncclComm* comm) { return comm->is_busy(); });
}

/// Waits until the aborted communicators of this process have ended. An aborted call may stand
/// behind a call of another communicator, in a stream of the program; then the program may abort
/// that one next. All aborts together wait for `longest`: each of a hundred groups may be stuck.
void await_ends() {
  constexpr std::chrono::milliseconds between_looks{5}, while_others_are_busy{200};
  constexpr std::chrono::seconds longest{60};
  const auto begun = std::chrono::steady_clock::now();
  const char* why = nullptr;
  while (why == nullptr && !penstock::base::await_ends(between_looks)) {
    const auto now = std::chrono::steady_clock::now();
    if (now - begun <= while_others_are_busy) continue;
    if (now - aborted_since() > longest)
      why = "the program's stream has not come to them within 60 s of the first abort";
    if (is_any_busy()) why = "another communicator has calls under way, for which they may wait";
  }
  if (why == nullptr) return;
  penstock::base::log(penstock::base::Level::warn,
                      "ncclCommAbort: the GPU may still write to buffers of aborted calls, until "
                      "their streams have passed them: {}",
                      why);
}

}  // namespace

ncclComm::ncclComm() {
  const std::lock_guard<std::mutex> guard(all().mutex);
  all().comms.push_back(this);
}

ncclComm::~ncclComm() {
  close();
}

bool ncclComm::is_busy() const {
  if (!opened || aborted || gpu == nullptr) return false;
  return ends_ || core == nullptr || mail->is_busy() || penstock_comm_busy(core) != 0;
}

void ncclComm::revoke() {
  const InCall in(*this);
  if (!closes) abort();
}

void ncclComm::abort() {
  aborted = true;
  __atomic_store_n(&cancelled, 1, __ATOMIC_RELEASE);
  // The thread that is making this communicator checks `aborted`. It may be another communicator's
  // thread; a task here waits for it, so that this communicator is not destroyed before.
  if (!opened) return;
  tasks.drop();
  if (other != nullptr) {
    (void)library->CommAbort(std::exchange(other, nullptr));
    return;
  }
  if (mail != nullptr) mail->stop("the communicator was aborted");
  (void)penstock_comm_abort(core);
}

void ncclComm::abort_and_close() {
  if (closes.exchange(true)) return;  // another thread aborts it
  abort();
  const auto end = [self = shared_from_this()] {
    constexpr std::chrono::microseconds between_looks{50};
    while (self->calls_ != 0) std::this_thread::sleep_for(between_looks);
    self->close();
  };
  if (gpu == nullptr) return end();
  note_abort();
  penstock::base::end_beside("penstock-abort", end);
  await_ends();
}

/// Requires that no thread is in a call, nor enters one.
void ncclComm::close() {
  tasks.await();
  {
    const std::lock_guard<std::mutex> guard(all().mutex);
    ends_ = true;
  }
  nccl::forget_windows(this);
  if (other != nullptr) (void)library->CommDestroy(std::exchange(other, nullptr));
  mail.reset();
  penstock_comm_close(std::exchange(core, nullptr));
  const std::lock_guard<std::mutex> guard(all().mutex);
  std::erase(all().comms, this);
}
