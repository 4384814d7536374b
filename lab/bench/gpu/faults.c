/* Preloaded into a program: tells on standard error where a fatal signal came from, in whichever
 * thread, and leaves the rest to the signal's default, such as a core.
 *
 *   cc -O1 -g -shared -fPIC -o faults.so faults.c
 */
#define _GNU_SOURCE
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static void say(const char* text, size_t bytes) {
  if (write(STDERR_FILENO, text, bytes) < 0) return;
}

static void say_file(const char* path) {
  char part[4096];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  for (ssize_t got = read(file, part, sizeof part); got > 0; got = read(file, part, sizeof part))
    say(part, (size_t)got);
  close(file);
}

static void say_registers(const ucontext_t* context) {
  char line[256];
#if defined(__x86_64__)
  const greg_t* const r = context->uc_mcontext.gregs;
  const int length = snprintf(line, sizeof line, "rip %llx rsp %llx rdi %llx rsi %llx rdx %llx\n",
                              (unsigned long long)r[REG_RIP], (unsigned long long)r[REG_RSP],
                              (unsigned long long)r[REG_RDI], (unsigned long long)r[REG_RSI],
                              (unsigned long long)r[REG_RDX]);
#else
  const int length = snprintf(line, sizeof line, "context at %p\n", (const void*)context);
#endif
  say(line, (size_t)length);
}

static void on_fault(int number, siginfo_t* info, void* context) {
  enum { frame_count = 64 };
  void* frames[frame_count];
  char line[160];
  const int length =
      snprintf(line, sizeof line, "fault: signal %d, code %d, address %p, thread %ld: ", number,
               info->si_code, info->si_addr, (long)syscall(SYS_gettid));
  say(line, (size_t)length);
  say_file("/proc/thread-self/comm");
  say_registers(context);
  backtrace_symbols_fd(frames, backtrace(frames, frame_count), STDERR_FILENO);
  say_file("/proc/self/maps");
  signal(number, SIG_DFL);
  raise(number);
}

__attribute__((constructor)) static void begin(void) {
  static char stack[1 << 16]; /* for the first thread; the others use their own */
  const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
  const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  void* first[1];
  backtrace(first, 1); /* loads what it needs now, not in a fault */
  sigaltstack(&own, NULL);
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i)
    sigaction(numbers[i], &action, NULL);
}
