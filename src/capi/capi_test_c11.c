/* Both headers in a C11 program. */
#include "penstock/cxl_shm.h"
#include "penstock/penstock.h"

int c11_program(const char* name);

int c11_program(const char* name) {
  cxl_shm_obj_t object;
  int wrong = 0;
  if (cxl_shm_init() != 0) return 1;
  if (cxl_shm_create(name, 64, &object) != 0) return 2;
  wrong += *(const char*)object.addr != 0;
  wrong += cxl_shm_close(&object) != 0;
  wrong += cxl_shm_open(name, &object) != 0;
  wrong += cxl_shm_destroy(&object) != 0;
  wrong += cxl_shm_finalize() != 0;
  return wrong;
}
