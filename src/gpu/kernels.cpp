#include "gpu/kernels.hpp"

#ifdef PENSTOCK_FATBIN
__asm__(
    ".section .rodata.penstock_kernels, \"a\"\n"
    ".balign 16\n"
    "penstock_kernels:\n"
    ".incbin \"" PENSTOCK_FATBIN
    "\"\n"
    ".byte 0\n"
    ".previous\n");
extern "C" const char penstock_kernels[] __attribute__((visibility("hidden")));
#else
static const char penstock_kernels[16] = "";
#endif

namespace penstock::gpu {

bool has_kernels() {
#ifdef PENSTOCK_FATBIN
  return true;
#else
  return false;
#endif
}

const void* kernels_image() {
  return penstock_kernels;
}

}  // namespace penstock::gpu
