// penstock_tx_*, penstock_undo_log_*, penstock_checkpoint_*, and lifetimes of objects.
#include "penstock/persist.h"

#include "base/format.hpp"
#include "capi/attachment.hpp"
#include "capi/outcome.hpp"
#include "persist/checkpoint.hpp"
#include "persist/reader.hpp"
#include "persist/recovery.hpp"
#include "persist/undo_log.hpp"

using namespace penstock;

struct penstock_undo_log {
  std::shared_ptr<capi::Attachment> attachment;
  std::unique_ptr<persist::UndoLog> log;  // gone before its arena
};

struct penstock_checkpoint {
  std::shared_ptr<capi::Attachment> attachment;
  persist::Checkpoint checkpoint;
};

namespace penstock::capi {

namespace {

penstock_status_t missing(const char* what) {
  return report(ErrorCode::invalid_argument, what);
}

Result<arena::Lifetime> lifetime_of(penstock_lifetime_t lifetime) {
  switch (lifetime) {
    case PENSTOCK_LIFETIME_POOL:
      return arena::Lifetime::pool;
    case PENSTOCK_LIFETIME_PROCESS:
      return arena::Lifetime::process;
    case PENSTOCK_LIFETIME_PERSISTENT:
      return arena::Lifetime::persistent;
  }
  return fail(ErrorCode::invalid_argument, "lifetime {} is none of PENSTOCK_LIFETIME_*",
              static_cast<int>(lifetime));
}

penstock_status_t hand_out(penstock_pool_t* pool, Result<persist::Checkpoint> found,
                           penstock_checkpoint_t** checkpoint) {
  if (!found) return report(found.error());
  *checkpoint = new penstock_checkpoint{pool->attachment, std::move(*found)};
  return PENSTOCK_OK;
}

template <class Call>
penstock_status_t with(penstock_undo_log_t* log, Call call) {
  return guarded([&] {
    if (log == nullptr) return missing("the undo log is NULL");
    return report(call(*log->log));
  });
}

template <class Handle, class Call>
penstock_status_t with_checkpoint(Handle* checkpoint, Call call) {
  return guarded([&] {
    if (checkpoint == nullptr) return missing("the checkpoint is NULL");
    return report(call(checkpoint->checkpoint));
  });
}

}  // namespace

}  // namespace penstock::capi

extern "C" {

penstock_durability_t penstock_pool_durability(const penstock_pool_t* pool) {
  return static_cast<penstock_durability_t>(pool->attachment->pool->durability());
}

penstock_status_t penstock_object_set_lifetime(penstock_object_t* object,
                                               penstock_lifetime_t lifetime) {
  return capi::guarded([&] {
    if (object == nullptr) return capi::missing("the object is NULL");
    const auto wanted = capi::lifetime_of(lifetime);
    if (!wanted) return capi::report(wanted.error());
    return capi::report(persist::set_lifetime(*object->attachment->arena, object->object, *wanted));
  });
}

penstock_status_t penstock_object_lifetime(const penstock_object_t* object,
                                           penstock_lifetime_t* lifetime) {
  return capi::guarded([&] {
    if (object == nullptr || lifetime == nullptr)
      return capi::missing("the object or the place for its lifetime is NULL");
    const auto found = object->attachment->arena->lifetime(object->object);
    if (found) *lifetime = static_cast<penstock_lifetime_t>(*found);
    return capi::report(found);
  });
}

penstock_status_t penstock_undo_log_open(penstock_pool_t* pool, uint64_t bytes,
                                         penstock_undo_log_t** log) {
  return capi::guarded([&] {
    if (log != nullptr) *log = nullptr;
    if (pool == nullptr || log == nullptr)
      return capi::missing("the pool or the handle's place is NULL");
    auto opened = persist::UndoLog::open(*pool->attachment->arena,
                                         bytes != 0 ? bytes : persist::UndoLog::default_bytes);
    if (!opened) return capi::report(opened.error());
    *log = new penstock_undo_log{pool->attachment, std::move(*opened)};
    return PENSTOCK_OK;
  });
}

void penstock_undo_log_close(penstock_undo_log_t* log) {
  capi::guarded([&] {
    delete log;
    return PENSTOCK_OK;
  });
}

penstock_status_t penstock_tx_begin(penstock_undo_log_t* log) {
  return capi::with(log, [](persist::UndoLog& undo) { return undo.begin(); });
}

penstock_status_t penstock_tx_add(penstock_undo_log_t* log, const penstock_object_t* object,
                                  uint64_t offset, uint64_t bytes) {
  if (object == nullptr) return capi::missing("the object is NULL");
  return capi::with(log, [&](persist::UndoLog& undo) -> Result<void> {
    if (&undo.arena() != object->attachment->arena.get())
      return fail(ErrorCode::invalid_argument,
                  "object \"{}\" and the undo log are of different attachments",
                  object->object.name);
    return undo.add(object->object, offset, bytes);
  });
}

penstock_status_t penstock_tx_commit(penstock_undo_log_t* log) {
  return capi::with(log, [](persist::UndoLog& undo) { return undo.commit(); });
}

penstock_status_t penstock_tx_abort(penstock_undo_log_t* log) {
  return capi::with(log, [](persist::UndoLog& undo) { return undo.abort(); });
}

penstock_status_t penstock_tx_release(penstock_undo_log_t* log, const penstock_object_t* object) {
  return capi::with(log, [&](persist::UndoLog& undo) {
    return object != nullptr ? undo.release(object->object) : undo.release_all();
  });
}

penstock_status_t penstock_tx_read(const penstock_object_t* object, void* to, uint64_t offset,
                                   uint64_t bytes, uint64_t timeout_ns, uint64_t* version) {
  return capi::guarded([&] {
    if (object == nullptr || to == nullptr)
      return capi::missing("the object or the place for its bytes is NULL");
    auto reader = persist::Reader::open(*object->attachment->arena, object->object);
    if (!reader) return capi::report(reader.error());
    const auto read = reader->read(to, offset, bytes, timeout_ns);
    if (read && version != nullptr) *version = *read;
    return capi::report(read);
  });
}

penstock_status_t penstock_tx_recover(penstock_pool_t* pool, uint32_t* undone, uint32_t* waiting) {
  return capi::guarded([&] {
    if (pool == nullptr) return capi::missing("the pool is NULL");
    const auto recovered = persist::recover(*pool->attachment->arena);
    if (recovered && undone != nullptr) *undone = recovered->logs;
    if (recovered && waiting != nullptr)
      *waiting = static_cast<uint32_t>(recovered->waiting.size());
    return capi::report(recovered);
  });
}

penstock_status_t penstock_checkpoint_create(penstock_pool_t* pool, const char* name,
                                             uint64_t bytes, penstock_lifetime_t lifetime,
                                             penstock_checkpoint_t** checkpoint) {
  return capi::guarded([&] {
    if (checkpoint != nullptr) *checkpoint = nullptr;
    if (pool == nullptr || name == nullptr || checkpoint == nullptr)
      return capi::missing("the pool, the name or the handle's place is NULL");
    const auto wanted = capi::lifetime_of(lifetime == 0 ? PENSTOCK_LIFETIME_PERSISTENT : lifetime);
    if (!wanted) return capi::report(wanted.error());
    return capi::hand_out(
        pool, persist::Checkpoint::create(*pool->attachment->arena, name, bytes, *wanted),
        checkpoint);
  });
}

penstock_status_t penstock_checkpoint_open(penstock_pool_t* pool, const char* name,
                                           penstock_checkpoint_t** checkpoint) {
  return capi::guarded([&] {
    if (checkpoint != nullptr) *checkpoint = nullptr;
    if (pool == nullptr || name == nullptr || checkpoint == nullptr)
      return capi::missing("the pool, the name or the handle's place is NULL");
    return capi::hand_out(pool, persist::Checkpoint::open(*pool->attachment->arena, name),
                          checkpoint);
  });
}

void penstock_checkpoint_close(penstock_checkpoint_t* checkpoint) {
  capi::guarded([&] {
    delete checkpoint;
    return PENSTOCK_OK;
  });
}

penstock_status_t penstock_checkpoint_destroy(penstock_checkpoint_t* checkpoint) {
  return capi::guarded([&] {
    if (checkpoint == nullptr) return capi::missing("the checkpoint is NULL");
    const std::unique_ptr<penstock_checkpoint> handle(checkpoint);
    return capi::report(handle->attachment->arena->destroy(handle->checkpoint.object()));
  });
}

penstock_status_t penstock_checkpoint_info(const penstock_checkpoint_t* checkpoint,
                                           penstock_checkpoint_info_t* info) {
  if (info == nullptr) return capi::missing("the place for what is valid is NULL");
  return capi::with_checkpoint(checkpoint, [&](const persist::Checkpoint& of) -> Result<void> {
    const auto valid = PENSTOCK_TRY(of.valid());
    *info = {valid.version, valid.tag, of.bytes()};
    return {};
  });
}

penstock_status_t penstock_checkpoint_begin(penstock_checkpoint_t* checkpoint, uint64_t* version) {
  return capi::with_checkpoint(checkpoint, [&](persist::Checkpoint& of) -> Result<void> {
    const auto begun = PENSTOCK_TRY(of.begin());
    if (version != nullptr) *version = begun;
    return {};
  });
}

penstock_status_t penstock_checkpoint_write(penstock_checkpoint_t* checkpoint, uint64_t offset,
                                            const void* from, uint64_t bytes) {
  if (from == nullptr) return capi::missing("the data to be written are NULL");
  return capi::with_checkpoint(
      checkpoint, [&](persist::Checkpoint& of) { return of.write(offset, from, bytes); });
}

penstock_status_t penstock_checkpoint_flush(penstock_checkpoint_t* checkpoint) {
  return capi::with_checkpoint(checkpoint, [](persist::Checkpoint& of) { return of.flush(); });
}

penstock_status_t penstock_checkpoint_commit(penstock_checkpoint_t* checkpoint, uint64_t tag) {
  return capi::with_checkpoint(checkpoint, [&](persist::Checkpoint& of) { return of.commit(tag); });
}

penstock_status_t penstock_checkpoint_read(const penstock_checkpoint_t* checkpoint,
                                           uint64_t version, void* to, uint64_t offset,
                                           uint64_t bytes) {
  if (to == nullptr) return capi::missing("the place for the data is NULL");
  return capi::with_checkpoint(checkpoint, [&](const persist::Checkpoint& of) {
    return of.read(version, to, offset, bytes);
  });
}

}  // extern "C"
