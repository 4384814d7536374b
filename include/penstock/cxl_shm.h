/* The six calls of the CXL SHM Arena as published (cMPI, table 2), for programs written to them.
 * They resemble POSIX shm: 0 on success; -1 with errno set, and penstock_last_error() in words.
 *
 *   cxl_shm_init()                      attaches to the pool that PENSTOCK_POOL names
 *   cxl_shm_finalize()                  detaches; objects stay
 *   cxl_shm_create(name, size, &obj)    makes an object of zero bytes, aligned to a cache line
 *   cxl_shm_open(name, &obj)            opens an existing object by name
 *   cxl_shm_destroy(&obj)               deletes the object and closes the handle
 *   cxl_shm_close(&obj)                 closes the handle
 *
 * Ordering: caches of different hosts are not coherent. After storing to obj.addr call
 * cxl_shm_publish; before loading what another process wrote call cxl_shm_observe. Thread-safe,
 * except that two threads may not use one object handle. Calls of init and finalize are counted.
 */
#ifndef PENSTOCK_CXL_SHM_H
#define PENSTOCK_CXL_SHM_H

#include <errno.h>
#include <stddef.h>

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cxl_shm_obj {
  void* addr; /* in this process */
  size_t size;
  penstock_object_t* handle;
} cxl_shm_obj_t;

static inline int cxl_shm_result(penstock_status_t status) {
  switch (status) {
    case PENSTOCK_OK:
      return 0;
    case PENSTOCK_INVALID_ARGUMENT:
      errno = EINVAL;
      break;
    case PENSTOCK_NOT_FOUND:
      errno = ENOENT;
      break;
    case PENSTOCK_ALREADY_EXISTS:
      errno = EEXIST;
      break;
    case PENSTOCK_PERMISSION:
      errno = EACCES;
      break;
    case PENSTOCK_NO_SPACE:
      errno = ENOMEM;
      break;
    case PENSTOCK_NO_SLOTS:
      errno = ENOSPC;
      break;
    case PENSTOCK_DEADLINE:
      errno = ETIMEDOUT;
      break;
    case PENSTOCK_UNAVAILABLE:
      errno = EAGAIN;
      break;
    default:
      errno = EIO;
      break;
  }
  return -1;
}

static inline int cxl_shm_attached(void) {
  if (penstock_default_pool() != NULL) return 1;
  errno = ENXIO; /* cxl_shm_init has not been called */
  return 0;
}

static inline void cxl_shm_fill(cxl_shm_obj_t* obj, penstock_object_t* handle) {
  obj->addr = penstock_object_data(handle);
  obj->size = (size_t)penstock_object_bytes(handle);
  obj->handle = handle;
}

static inline int cxl_shm_init(void) {
  return cxl_shm_result(penstock_default_attach());
}

static inline int cxl_shm_finalize(void) {
  if (!cxl_shm_attached()) return -1;
  penstock_default_detach();
  return 0;
}

static inline int cxl_shm_create(const char* name, size_t size, cxl_shm_obj_t* obj) {
  penstock_object_t* handle = NULL;
  if (!cxl_shm_attached()) return -1;
  if (cxl_shm_result(penstock_arena_create(penstock_default_pool(), name, size, NULL, &handle)) !=
      0)
    return -1;
  cxl_shm_fill(obj, handle);
  return 0;
}

static inline int cxl_shm_open(const char* name, cxl_shm_obj_t* obj) {
  penstock_object_t* handle = NULL;
  if (!cxl_shm_attached()) return -1;
  if (cxl_shm_result(penstock_arena_open(penstock_default_pool(), name, &handle)) != 0) return -1;
  cxl_shm_fill(obj, handle);
  return 0;
}

static inline int cxl_shm_close(cxl_shm_obj_t* obj) {
  penstock_arena_close(obj->handle);
  obj->addr = NULL;
  obj->size = 0;
  obj->handle = NULL;
  return 0;
}

static inline int cxl_shm_destroy(cxl_shm_obj_t* obj) {
  const penstock_status_t status = penstock_arena_destroy(obj->handle);
  obj->handle = NULL;
  cxl_shm_close(obj);
  return cxl_shm_result(status);
}

/* penstock_publish and penstock_observe for `size` bytes from `offset` of an open object. */
static inline int cxl_shm_publish(const cxl_shm_obj_t* obj, size_t offset, size_t size) {
  if (!cxl_shm_attached()) return -1;
  if (offset > obj->size || size > obj->size - offset)
    return cxl_shm_result(PENSTOCK_INVALID_ARGUMENT);
  return cxl_shm_result(
      penstock_publish(penstock_default_pool(), (const char*)obj->addr + offset, size));
}

static inline int cxl_shm_observe(const cxl_shm_obj_t* obj, size_t offset, size_t size) {
  if (!cxl_shm_attached()) return -1;
  if (offset > obj->size || size > obj->size - offset)
    return cxl_shm_result(PENSTOCK_INVALID_ARGUMENT);
  return cxl_shm_result(
      penstock_observe(penstock_default_pool(), (const char*)obj->addr + offset, size));
}

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_CXL_SHM_H */
