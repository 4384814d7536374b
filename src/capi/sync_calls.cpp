// penstock_barrier_*, penstock_lock_*, penstock_doorbell_*: sync on lines of an object.
#include "base/checked.hpp"
#include "base/format.hpp"
#include "capi/attachment.hpp"
#include "capi/outcome.hpp"
#include "sync/sync.hpp"

struct penstock_barrier {
  std::shared_ptr<penstock::capi::Attachment> attachment;
  penstock::sync::Barrier barrier;
};

struct penstock_lock {
  std::shared_ptr<penstock::capi::Attachment> attachment;
  penstock::sync::Lock lock;
  bool held = false;
};

struct penstock_doorbell {
  std::shared_ptr<penstock::capi::Attachment> attachment;
  penstock::sync::Doorbell doorbell;
};

namespace penstock::capi {

namespace {

/// The lines at `offset` of the object, if they lie in it whole.
Result<void*> lines_of(const penstock_object_t* object, std::uint64_t offset, std::uint64_t bytes) {
  if (object == nullptr) return fail(ErrorCode::invalid_argument, "the object is NULL");
  const arena::Object& found = object->object;
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
  // The handle that holds the check holds the attachment too.
  return [pool = attachment->pool.get()](std::uint64_t token) { return pool->alive(token); };
}

/// Opens a Barrier or Lock: one line a participant.
template <class Handle, class Primitive>
penstock_status_t open_lines(const penstock_object_t* object, std::uint64_t offset,
                             std::uint32_t participants, std::uint32_t self, Handle** handle) {
  return guarded([&] {
    if (handle == nullptr) return report(ErrorCode::invalid_argument, "no place for the handle");
    *handle = nullptr;
    if (auto checked = check_self(participants, self); !checked) return report(checked);
    const auto lines = lines_of(object, offset, Primitive::bytes(participants));
    if (!lines) return report(lines.error());
    const auto& attachment = object->attachment;
    const pool::Pool& pool = *attachment->pool;
    *handle = new Handle{attachment, Primitive(pool.memory(), *lines, participants, self,
                                               pool.token(), alive_check(attachment))};
    return PENSTOCK_OK;
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
  const auto status = capi::open_lines<penstock_barrier, sync::Barrier>(
      object, offset, participants, self, barrier);
  if (status != PENSTOCK_OK) return status;
  return capi::guarded([&] {
    const pool::Pool* pool = (*barrier)->attachment->pool.get();
    (*barrier)->barrier.describe_by([pool](std::uint64_t token) { return pool->describe(token); });
    return PENSTOCK_OK;
  });
}

penstock_status_t penstock_barrier_wait(penstock_barrier_t* barrier, uint64_t timeout_ns) {
  return capi::guarded([&] {
    if (barrier == nullptr) return capi::report(ErrorCode::invalid_argument, "the barrier is NULL");
    return capi::report(barrier->barrier.wait(timeout_ns));
  });
}

void penstock_barrier_close(penstock_barrier_t* barrier) {
  capi::guarded([&] {
    delete barrier;
    return PENSTOCK_OK;
  });
}

uint64_t penstock_lock_bytes(uint32_t participants) {
  return sync::Lock::bytes(participants);
}

penstock_status_t penstock_lock_open(const penstock_object_t* object, uint64_t offset,
                                     uint32_t participants, uint32_t self, penstock_lock_t** lock) {
  const auto status =
      capi::open_lines<penstock_lock, sync::Lock>(object, offset, participants, self, lock);
  if (status != PENSTOCK_OK) return status;
  return capi::guarded([&] {
    (*lock)->lock.repair();
    return PENSTOCK_OK;
  });
}

static penstock_status_t acquire(penstock_lock_t* lock, uint64_t timeout_ns, sync::Hold hold) {
  return capi::guarded([&] {
    if (lock == nullptr) return capi::report(ErrorCode::invalid_argument, "the lock is NULL");
    if (lock->held) {
      return capi::report(ErrorCode::invalid_argument, "this handle holds the lock already");
    }
    const auto acquired = lock->lock.acquire(timeout_ns, hold);
    lock->held = acquired.has_value();
    return capi::report(acquired);
  });
}

penstock_status_t penstock_lock_acquire(penstock_lock_t* lock, uint64_t timeout_ns) {
  return acquire(lock, timeout_ns, sync::Hold::exclusive);
}

penstock_status_t penstock_lock_acquire_shared(penstock_lock_t* lock, uint64_t timeout_ns) {
  return acquire(lock, timeout_ns, sync::Hold::shared);
}

void penstock_lock_release(penstock_lock_t* lock) {
  capi::guarded([&] {
    if (lock != nullptr && lock->held) {
      lock->held = false;
      lock->lock.release();
    }
    return PENSTOCK_OK;
  });
}

void penstock_lock_close(penstock_lock_t* lock) {
  penstock_lock_release(lock);
  capi::guarded([&] {
    delete lock;
    return PENSTOCK_OK;
  });
}

uint64_t penstock_doorbell_bytes(void) {
  return coherence::line_bytes;
}

penstock_status_t penstock_doorbell_open(const penstock_object_t* object, uint64_t offset,
                                         penstock_doorbell_t** doorbell) {
  return capi::guarded([&] {
    if (doorbell == nullptr)
      return capi::report(ErrorCode::invalid_argument, "no place for the handle");
    *doorbell = nullptr;
    const auto line = capi::lines_of(object, offset, coherence::line_bytes);
    if (!line) return capi::report(line.error());
    *doorbell = new penstock_doorbell{object->attachment,
                                      sync::Doorbell(object->attachment->pool->memory(), *line)};
    return PENSTOCK_OK;
  });
}

void penstock_doorbell_ring(penstock_doorbell_t* doorbell, uint64_t number) {
  doorbell->doorbell.ring(number);
}

uint64_t penstock_doorbell_read(const penstock_doorbell_t* doorbell) {
  return doorbell->doorbell.read();
}

penstock_status_t penstock_doorbell_wait(const penstock_doorbell_t* doorbell, uint64_t number,
                                         uint64_t timeout_ns, uint64_t ringer) {
  return capi::guarded([&] {
    if (doorbell == nullptr)
      return capi::report(ErrorCode::invalid_argument, "the doorbell is NULL");
    const auto alive = ringer != 0 ? capi::alive_check(doorbell->attachment) : sync::AliveCheck();
    auto rung = doorbell->doorbell.wait(number, timeout_ns, alive, ringer);
    if (!rung && rung.error().code == ErrorCode::peer_dead) {
      rung.error().message += ": " + doorbell->attachment->pool->describe(ringer);
    }
    return capi::report(rung);
  });
}

void penstock_doorbell_close(penstock_doorbell_t* doorbell) {
  capi::guarded([&] {
    delete doorbell;
    return PENSTOCK_OK;
  });
}

}  // extern "C"
