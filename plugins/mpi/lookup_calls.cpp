// Our dlsym. Its result for RTLD_NEXT and RTLD_DEFAULT depends on the caller. So it passes other
// look-ups on to the C library by a jump, not a call: the C library then sees the original caller.
#include "lookups.hpp"
#include "objects.hpp"

extern "C" {
__attribute__((visibility("hidden"), used)) void* penstock_mpi_our_symbol(void* handle,
                                                                          const char* name,
                                                                          const void* caller) {
  return penstock::mpi::our_symbol(handle, name, caller);
}
/// The C library's dlsym.
__attribute__((visibility("hidden"), used)) penstock::mpi::LookUp* penstock_mpi_dlsym() {
  return penstock::mpi::look_up();
}
}

#if defined(__x86_64__)
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  movq 24(%rsp), %rdx
  call penstock_mpi_our_symbol
  testq %rax, %rax
  jne 1f
  call penstock_mpi_dlsym
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%rax
1:
  .cfi_adjust_cfa_offset 24
  addq $24, %rsp
  .cfi_adjust_cfa_offset -24
  ret
  .cfi_endproc
  .size dlsym, .-dlsym
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl dlsym
  .type dlsym, %function
dlsym:
  .cfi_startproc
  hint 34
  stp x29, x30, [sp, -32]!
  .cfi_def_cfa_offset 32
  .cfi_offset 29, -32
  .cfi_offset 30, -24
  mov x29, sp
  stp x0, x1, [sp, 16]
  mov x2, x30
  bl penstock_mpi_our_symbol
  cbnz x0, 1f
  bl penstock_mpi_dlsym
  mov x16, x0
  ldp x0, x1, [sp, 16]
  ldp x29, x30, [sp], 32
  .cfi_restore 30
  .cfi_restore 29
  .cfi_def_cfa_offset 0
  br x16
1:
  .cfi_def_cfa_offset 32
  .cfi_offset 29, -32
  .cfi_offset 30, -24
  ldp x29, x30, [sp], 32
  .cfi_restore 30
  .cfi_restore 29
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
  .size dlsym, .-dlsym
)");
#endif
