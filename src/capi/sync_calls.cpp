// penstock_barrier_*, penstock_lock_*, penstock_doorbell_*: sync on lines of an object.
#include <atomic>

#include "base/checked.hpp"
#include "base/format.hpp"
#include "capi/attachment.hpp"
#include "capi/outcome.hpp"
#include "sync/sync.hpp"

struct penstock_barrier final : penstock::capi::AttachedHandle {
  static constexpr const char* noun = "barrier";
  penstock_barrier(std::shared_ptr<penstock::capi::Attachment> to, penstock::sync::Barrier made)
      : AttachedHandle(std::move(to)), barrier(std::move(made)) {}

  penstock::sync::Barrier barrier;
};

struct penstock_lock final : penstock::capi::AttachedHandle {
  static constexpr const char* noun = "lock";
  penstock_lock(std::shared_ptr<penstock::capi::Attachment> to, penstock::sync::Lock made)
      : AttachedHandle(std::move(to)), lock(std::move(made)) {}

  void release() {
    held = false;
    lock.release();
  }

  penstock::sync::Lock lock;
  bool held = false;

 private:
  void release_contents() override {
    if (held) release();
  }
};

struct penstock_doorbell final : penstock::capi::AttachedHandle {
  static constexpr const char* noun = "doorbell";
  penstock_doorbell(std::shared_ptr<penstock::capi::Attachment> to, penstock::sync::Doorbell made)
      : AttachedHandle(std::move(to)), doorbell(made) {}

  penstock::Result<void> ring(std::uint64_t number) {
    const std::uint64_t last = has_rung.load(std::memory_order_acquire)
                                   ? rung.load(std::memory_order_relaxed)
                                   : doorbell.read();
    if (number < last)
      return penstock::fail(penstock::ErrorCode::invalid_argument,
                            "the doorbell's number is {}, and {} is smaller: ring it with numbers "
                            "that only grow",
                            last, number);
    doorbell.ring(number);
    rung.store(number, std::memory_order_relaxed);
    has_rung.store(true, std::memory_order_release);
    return {};
  }

  penstock::sync::Doorbell doorbell;
  std::atomic<bool> has_rung{false};
  std::atomic<std::uint64_t> rung{0};  ///< by this handle: it spares the access to the pool
};

namespace penstock::capi {

namespace {

/// The lines at `offset`, if they lie wholly in the object.
Result<void*> lines_of(const penstock_object& object, std::uint64_t offset, std::uint64_t bytes) {
  const arena::Object& found = object.object;
  if (offset % coherence::line_bytes != 0 || !base::range_inside(offset, bytes, found.bytes)) {
    return fail(ErrorCode::invalid_argument,
                "{} bytes at offset {} do not lie in object \"{}\" of {} bytes at a multiple of 64",
                bytes, offset, found.name, found.bytes);
  }
  return found.data + offset;
}

Result<void> check_self(std::uint32_t participants, std::uint32_t self) {
  if (self < participants) return {};
  return fail(ErrorCode::invalid_argument, "participant {} of {} does not exist", self,
              participants);
}

sync::AliveCheck alive_check(const std::shared_ptr<Attachment>& attachment) {
  // the handle that holds the check holds the attachment too
  return [pool = attachment->pool.get()](std::uint64_t token) { return pool->alive(token); };
}

/// Opens a Barrier or Lock, with one line per participant. Calls `ready(handle)` before the caller
/// gets the handle.
template <class Handle, class Primitive, class Ready>
penstock_status_t open_lines(const penstock_object_t* object, std::uint64_t offset,
                             std::uint32_t participants, std::uint32_t self, Handle** handle,
                             Ready&& ready) {
  if (handle != nullptr) *handle = nullptr;
  return use(object, [&](const penstock_object& in) -> Result<void> {
    if (handle == nullptr) return fail(ErrorCode::invalid_argument, "no place for the handle");
    PENSTOCK_TRY(check_self(participants, self));
    void* const lines = PENSTOCK_TRY(lines_of(in, offset, Primitive::bytes(participants)));
    const pool::Pool& pool = *in.attachment->pool;
    *handle = new Handle(in.attachment, Primitive(pool.memory(), lines, participants, self,
                                                  pool.token(), alive_check(in.attachment)));
    ready(**handle);
    return {};
  });
}

}  // namespace

}  // namespace penstock::capi

using namespace penstock;

extern "C" {

uint64_t penstock_barrier_bytes(uint32_t participants) {
  return sync::Barrier::bytes(participants);
}

penstock_status_t penstock_barrier_open(const penstock_object_t* object, uint64_t offset,
                                        uint32_t participants, uint32_t self,
                                        penstock_barrier_t** barrier) {
  return capi::open_lines<penstock_barrier, sync::Barrier>(
      object, offset, participants, self, barrier, [](penstock_barrier& opened) {
        const pool::Pool* pool = opened.attachment->pool.get();
        opened.barrier.describe_by([pool](std::uint64_t token) { return pool->describe(token); });
      });
}

penstock_status_t penstock_barrier_wait(penstock_barrier_t* barrier, uint64_t timeout_ns) {
  return capi::use(barrier, capi::Sharing::alone,
                   [&](penstock_barrier& handle) { return handle.barrier.wait(timeout_ns); });
}

void penstock_barrier_cancel(penstock_barrier_t* barrier) {
  if (barrier != nullptr) barrier->cancel();
}

void penstock_barrier_close(penstock_barrier_t* barrier) {
  capi::Handle::close(barrier);
}

uint64_t penstock_lock_bytes(uint32_t participants) {
  return sync::Lock::bytes(participants);
}

penstock_status_t penstock_lock_open(const penstock_object_t* object, uint64_t offset,
                                     uint32_t participants, uint32_t self, penstock_lock_t** lock) {
  return capi::open_lines<penstock_lock, sync::Lock>(
      object, offset, participants, self, lock,
      [](penstock_lock& opened) { opened.lock.repair(); });
}

static penstock_status_t acquire(penstock_lock_t* lock, uint64_t timeout_ns, sync::Hold hold) {
  return capi::use(lock, capi::Sharing::alone, [&](penstock_lock& handle) -> Result<void> {
    if (handle.held) return fail(ErrorCode::invalid_argument, "this handle holds the lock already");
    PENSTOCK_TRY(handle.lock.acquire(timeout_ns, hold));
    handle.held = true;
    return {};
  });
}

penstock_status_t penstock_lock_acquire(penstock_lock_t* lock, uint64_t timeout_ns) {
  return acquire(lock, timeout_ns, sync::Hold::exclusive);
}

penstock_status_t penstock_lock_acquire_shared(penstock_lock_t* lock, uint64_t timeout_ns) {
  return acquire(lock, timeout_ns, sync::Hold::shared);
}

penstock_status_t penstock_lock_release(penstock_lock_t* lock) {
  return capi::use(lock, capi::Sharing::alone, [](penstock_lock& handle) -> Result<void> {
    if (!handle.held)
      return fail(ErrorCode::invalid_argument, "this handle does not hold the lock");
    handle.release();
    return {};
  });
}

void penstock_lock_cancel(penstock_lock_t* lock) {
  if (lock != nullptr) lock->cancel();
}

void penstock_lock_close(penstock_lock_t* lock) {
  capi::Handle::close(lock);
}

uint64_t penstock_doorbell_bytes(void) {
  return coherence::line_bytes;
}

penstock_status_t penstock_doorbell_open(const penstock_object_t* object, uint64_t offset,
                                         penstock_doorbell_t** doorbell) {
  if (doorbell != nullptr) *doorbell = nullptr;
  return capi::use(object, [&](const penstock_object& in) -> Result<void> {
    if (doorbell == nullptr) return fail(ErrorCode::invalid_argument, "no place for the handle");
    void* const line = PENSTOCK_TRY(capi::lines_of(in, offset, coherence::line_bytes));
    *doorbell =
        new penstock_doorbell(in.attachment, sync::Doorbell(in.attachment->pool->memory(), line));
    return {};
  });
}

penstock_status_t penstock_doorbell_ring(penstock_doorbell_t* doorbell, uint64_t number) {
  return capi::use(doorbell, [&](penstock_doorbell& handle) { return handle.ring(number); });
}

uint64_t penstock_doorbell_read(const penstock_doorbell_t* doorbell) {
  std::uint64_t number = 0;
  capi::use(doorbell, [&](const penstock_doorbell& handle) {
    number = handle.doorbell.read();
    return PENSTOCK_OK;
  });
  return number;
}

penstock_status_t penstock_doorbell_wait(const penstock_doorbell_t* doorbell, uint64_t number,
                                         uint64_t timeout_ns, uint64_t ringer) {
  return capi::use(doorbell, [&](const penstock_doorbell& handle) {
    const auto alive = ringer != 0 ? capi::alive_check(handle.attachment) : sync::AliveCheck();
    auto rung = handle.doorbell.wait(number, timeout_ns, alive, ringer);
    if (!rung && rung.error().code == ErrorCode::peer_dead)
      rung.error().message += ": " + handle.attachment->pool->describe(ringer);
    return rung;
  });
}

void penstock_doorbell_cancel(penstock_doorbell_t* doorbell) {
  if (doorbell != nullptr) doorbell->cancel();
}

void penstock_doorbell_close(penstock_doorbell_t* doorbell) {
  capi::Handle::close(doorbell);
}

}  // extern "C"
