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

struct penstock_undo_log final : capi::AttachedHandle {
  static constexpr const char* noun = "undo log";
  penstock_undo_log(std::shared_ptr<capi::Attachment> to, std::unique_ptr<persist::UndoLog> opened)
      : AttachedHandle(std::move(to)), log(std::move(opened)) {}

  std::unique_ptr<persist::UndoLog> log;

 private:
  void release_contents() override { log.reset(); }
};

struct penstock_checkpoint final : capi::AttachedHandle {
  static constexpr const char* noun = "checkpoint";
  penstock_checkpoint(std::shared_ptr<capi::Attachment> to, persist::Checkpoint opened)
      : AttachedHandle(std::move(to)), checkpoint(std::move(opened)) {}

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

Result<void> hand_out(const penstock_pool& pool, Result<persist::Checkpoint> found,
                      penstock_checkpoint_t** checkpoint) {
  if (!found) return unexpected(found.error());
  *checkpoint = new penstock_checkpoint(pool.attachment, std::move(*found));
  return {};
}

/// A transaction belongs to one thread.
template <class Call>
penstock_status_t with(penstock_undo_log_t* log, Call call) {
  return use(log, Sharing::alone, [&](penstock_undo_log& handle) { return call(*handle.log); });
}

template <class Handle, class Call>
penstock_status_t with_checkpoint(Handle* checkpoint, Call call) {
  return use(checkpoint, [&](auto& handle) { return call(handle.checkpoint); });
}

}  // namespace

}  // namespace penstock::capi

extern "C" {

penstock_durability_t penstock_pool_durability(const penstock_pool_t* pool) {
  auto found = PENSTOCK_DURABILITY_NONE;
  capi::use(pool, [&](const penstock_pool& handle) {
    found = static_cast<penstock_durability_t>(handle.attachment->pool->device().durability());
    return PENSTOCK_OK;
  });
  return found;
}

penstock_status_t penstock_object_set_lifetime(penstock_object_t* object,
                                               penstock_lifetime_t lifetime) {
  return capi::use(object, [&](penstock_object& handle) -> Result<void> {
    const auto wanted = PENSTOCK_TRY(capi::lifetime_of(lifetime));
    return persist::set_lifetime(*handle.attachment->arena, handle.object, wanted);
  });
}

penstock_status_t penstock_object_lifetime(const penstock_object_t* object,
                                           penstock_lifetime_t* lifetime) {
  return capi::use(object, [&](const penstock_object& handle) {
    if (lifetime == nullptr) return capi::missing("the place for the lifetime is NULL");
    const auto found = handle.attachment->arena->lifetime(handle.object);
    if (found) *lifetime = static_cast<penstock_lifetime_t>(*found);
    return capi::report(found);
  });
}

penstock_status_t penstock_undo_log_open(penstock_pool_t* pool, uint64_t bytes,
                                         penstock_undo_log_t** log) {
  if (log != nullptr) *log = nullptr;
  return capi::use(pool, [&](const penstock_pool& handle) -> Result<void> {
    if (log == nullptr) return fail(ErrorCode::invalid_argument, "no place for the handle");
    auto opened = PENSTOCK_TRY(persist::UndoLog::open(
        *handle.attachment->arena, bytes != 0 ? bytes : persist::UndoLog::default_bytes));
    *log = new penstock_undo_log(handle.attachment, std::move(opened));
    return {};
  });
}

void penstock_undo_log_close(penstock_undo_log_t* log) {
  capi::Handle::close(log);
}

penstock_status_t penstock_tx_begin(penstock_undo_log_t* log) {
  return capi::with(log, [](persist::UndoLog& undo) { return undo.begin(); });
}

penstock_status_t penstock_tx_add(penstock_undo_log_t* log, const penstock_object_t* object,
                                  uint64_t offset, uint64_t bytes) {
  return capi::with(log, [&](persist::UndoLog& undo) {
    return capi::use(object, [&](const penstock_object& handle) -> Result<void> {
      if (&undo.arena() != handle.attachment->arena.get())
        return fail(ErrorCode::invalid_argument,
                    "object \"{}\" and the undo log are of different attachments",
                    handle.object.name);
      return undo.add(handle.object, offset, bytes);
    });
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
    if (object == nullptr) return capi::report(undo.release_all());
    return capi::use(object,
                     [&](const penstock_object& handle) { return undo.release(handle.object); });
  });
}

penstock_status_t penstock_tx_read(const penstock_object_t* object, void* to, uint64_t offset,
                                   uint64_t bytes, uint64_t timeout_ns, uint64_t* version) {
  return capi::use(object, [&](const penstock_object& handle) -> Result<void> {
    if (to == nullptr) return fail(ErrorCode::invalid_argument, "the place for the bytes is NULL");
    auto reader = PENSTOCK_TRY(persist::Reader::open(*handle.attachment->arena, handle.object));
    const auto read = PENSTOCK_TRY(reader.read(to, offset, bytes, timeout_ns));
    if (version != nullptr) *version = read;
    return {};
  });
}

penstock_status_t penstock_tx_recover(penstock_pool_t* pool, uint32_t* undone, uint32_t* waiting) {
  return capi::use(pool, [&](const penstock_pool& handle) {
    const auto recovered = persist::recover(*handle.attachment->arena);
    if (recovered && undone != nullptr) *undone = recovered->logs;
    if (recovered && waiting != nullptr)
      *waiting = static_cast<uint32_t>(recovered->waiting.size());
    return capi::report(recovered);
  });
}

penstock_status_t penstock_checkpoint_create(penstock_pool_t* pool, const char* name,
                                             uint64_t bytes, penstock_lifetime_t lifetime,
                                             penstock_checkpoint_t** checkpoint) {
  if (checkpoint != nullptr) *checkpoint = nullptr;
  return capi::use(pool, [&](const penstock_pool& handle) -> Result<void> {
    PENSTOCK_TRY(capi::check_named(*handle.attachment, name, checkpoint));
    const auto wanted =
        PENSTOCK_TRY(capi::lifetime_of(lifetime == 0 ? PENSTOCK_LIFETIME_PERSISTENT : lifetime));
    return capi::hand_out(
        handle, persist::Checkpoint::create(*handle.attachment->arena, name, bytes, wanted),
        checkpoint);
  });
}

penstock_status_t penstock_checkpoint_open(penstock_pool_t* pool, const char* name,
                                           penstock_checkpoint_t** checkpoint) {
  if (checkpoint != nullptr) *checkpoint = nullptr;
  return capi::use(pool, [&](const penstock_pool& handle) -> Result<void> {
    PENSTOCK_TRY(capi::check_named(*handle.attachment, name, checkpoint));
    return capi::hand_out(handle, persist::Checkpoint::open(*handle.attachment->arena, name),
                          checkpoint);
  });
}

void penstock_checkpoint_close(penstock_checkpoint_t* checkpoint) {
  capi::Handle::close(checkpoint);
}

penstock_status_t penstock_checkpoint_remove(penstock_checkpoint_t* checkpoint) {
  return capi::use(checkpoint, [](penstock_checkpoint& handle) {
    return persist::destroy(*handle.attachment->arena, handle.checkpoint.object());
  });
}

penstock_status_t penstock_checkpoint_destroy(penstock_checkpoint_t* checkpoint) {
  const penstock_status_t removed = penstock_checkpoint_remove(checkpoint);
  capi::Handle::close(checkpoint);
  return removed;
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
