// penstock_arena_* and penstock_object_*.
#include "capi/attachment.hpp"
#include "capi/options.hpp"
#include "capi/outcome.hpp"
#include "persist/recovery.hpp"

namespace penstock::capi {

namespace {

Result<arena::CreateOptions> creation(const penstock_object_options_t* options) {
  const auto given = PENSTOCK_TRY(read_options(options));
  arena::CreateOptions create;
  switch (given.lifetime) {
    case 0:
    case PENSTOCK_LIFETIME_POOL:
      create.lifetime = arena::Lifetime::pool;
      break;
    case PENSTOCK_LIFETIME_PROCESS:
      create.lifetime = arena::Lifetime::process;
      break;
    case PENSTOCK_LIFETIME_PERSISTENT:
      create.lifetime = arena::Lifetime::persistent;
      break;
    default:
      return fail(ErrorCode::invalid_argument, "lifetime {} is none of PENSTOCK_LIFETIME_*",
                  given.lifetime);
  }
  if (given.alignment != 0) create.alignment = given.alignment;
  create.zero = given.skip_zeroing == 0;
  create.open_existing = given.open_existing != 0;
  return create;
}

penstock_object_info_t info_of(const arena::Object& object) {
  return {object.name.c_str(), object.data, object.bytes, object.offset, object.generation};
}

Result<void> hand_out(const penstock_pool& pool, Result<arena::Object> found,
                      penstock_object_t** object) {
  if (!found) return unexpected(found.error());
  *object = new penstock_object(pool.attachment, std::move(*found));
  return {};
}

Result<void> remove(penstock_object& handle) {
  arena::Arena& arena = *handle.attachment->arena;
  arena.publish_stores(handle.object);
  PENSTOCK_TRY(persist::destroy(arena, handle.object));
  handle.is_gone = true;
  return {};
}

}  // namespace

}  // namespace penstock::capi

using namespace penstock;

extern "C" {

penstock_status_t penstock_arena_create(penstock_pool_t* pool, const char* name, uint64_t bytes,
                                        const penstock_object_options_t* options,
                                        penstock_object_t** object) {
  if (object != nullptr) *object = nullptr;
  return capi::use(pool, [&](const penstock_pool& handle) -> Result<void> {
    PENSTOCK_TRY(capi::check_named(*handle.attachment, name, object));
    const auto create = PENSTOCK_TRY(capi::creation(options));
    return capi::hand_out(handle, handle.attachment->arena->create(name, bytes, create), object);
  });
}

penstock_status_t penstock_arena_open(penstock_pool_t* pool, const char* name,
                                      penstock_object_t** object) {
  if (object != nullptr) *object = nullptr;
  return capi::use(pool, [&](const penstock_pool& handle) -> Result<void> {
    PENSTOCK_TRY(capi::check_named(*handle.attachment, name, object));
    return capi::hand_out(handle, handle.attachment->arena->open(name), object);
  });
}

void penstock_arena_close(penstock_object_t* object) {
  capi::Handle::close(object);
}

penstock_status_t penstock_arena_remove(penstock_object_t* object) {
  return capi::use(object, capi::remove);
}

penstock_status_t penstock_arena_destroy(penstock_object_t* object) {
  const penstock_status_t removed = penstock_arena_remove(object);
  capi::Handle::close(object);
  return removed;
}

penstock_status_t penstock_arena_list(penstock_pool_t* pool,
                                      void (*visit)(const penstock_object_info_t* info, void* user),
                                      void* user) {
  return capi::use(pool, [&](const penstock_pool& handle) {
    if (visit == nullptr)
      return capi::report(ErrorCode::invalid_argument, "the function to call is NULL");
    for (const auto& object : handle.attachment->arena->list()) {
      if (capi::is_hidden(*handle.attachment, object.name)) continue;
      const auto info = capi::info_of(object);
      visit(&info, user);
    }
    return PENSTOCK_OK;
  });
}

penstock_status_t penstock_arena_collect(penstock_pool_t* pool, int dry_run, uint32_t* processes,
                                         uint32_t* objects, uint64_t* bytes) {
  return capi::use(pool, [&](const penstock_pool& handle) {
    arena::Arena& arena = *handle.attachment->arena;
    const auto reclaimed = arena.collect(dry_run != 0);
    if (!reclaimed) return capi::report(reclaimed.error());
    if (dry_run == 0) {
      const auto recovered = persist::collect(arena);
      if (!recovered) return capi::report(recovered.error());
    }
    if (processes != nullptr) *processes = reclaimed->processes;
    if (objects != nullptr) *objects = reclaimed->objects;
    if (bytes != nullptr) *bytes = reclaimed->bytes;
    return PENSTOCK_OK;
  });
}

void penstock_object_info(const penstock_object_t* object, penstock_object_info_t* info) {
  if (info == nullptr) return;
  *info = {};
  capi::use(object, [&](const penstock_object& handle) {
    *info = capi::info_of(handle.object);
    return PENSTOCK_OK;
  });
}

void* penstock_object_data(const penstock_object_t* object) {
  penstock_object_info_t info;
  penstock_object_info(object, &info);
  return info.data;
}

uint64_t penstock_object_bytes(const penstock_object_t* object) {
  penstock_object_info_t info;
  penstock_object_info(object, &info);
  return info.bytes;
}

}  // extern "C"
