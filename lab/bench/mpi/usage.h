/* Resources that a rank has used so far: CPU time, and bytes by TCP sockets. */
#pragma once

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Of this process so far: microseconds of CPU, and bytes by each TCP socket. */
enum { cpu, sent, received, used_count, max_sockets = 4096 };
struct usage {
  double cpu;
  uint64_t sent[max_sockets], received[max_sockets]; /* by descriptor; 0: no TCP socket */
};

static inline void usage_so_far(struct usage* usage) {
  struct rusage used;
  memset(usage, 0, sizeof *usage);
  getrusage(RUSAGE_SELF, &used);
  usage->cpu = 1e6 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  for (int fd = 0; fd < max_sockets; ++fd) {
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) continue;
    usage->sent[fd] = info.tcpi_bytes_acked;
    usage->received[fd] = info.tcpi_bytes_received;
  }
}

/* Ignores a connection that was closed meanwhile, or replaced by a newer one. */
static inline double usage_grown(const uint64_t* before, const uint64_t* after) {
  double sum = 0;
  for (int fd = 0; fd < max_sockets; ++fd)
    sum += after[fd] >= before[fd] ? (double)(after[fd] - before[fd]) : 0;
  return sum;
}

/* The difference of the two, divided by `count` calls. */
static inline void usage_between(const struct usage* before, const struct usage* after, long count,
                                 double used[used_count]) {
  used[cpu] = (after->cpu - before->cpu) / (double)count;
  used[sent] = usage_grown(before->sent, after->sent) / (double)count;
  used[received] = usage_grown(before->received, after->received) / (double)count;
}
