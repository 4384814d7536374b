#include "janitor.hpp"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "mpi_segments.hpp"
#include "pool/leftovers.hpp"
#include "pool/pool.hpp"

namespace penstock::tools {
namespace {

constexpr std::uint64_t gentle_ns = 2'000'000'000;  ///< time from SIGTERM to SIGKILL
constexpr std::uint64_t give_up_ns = 10'000'000'000;

void end_job(const std::string& job, std::set<std::string> segments) {
  const auto left = processes_of(job);
  if (left.empty()) return remove_segments(segments);
  for (const pid_t pid : left) segments.merge(mpi_segments_of(pid));
  const std::uint64_t start_ns = base::now_ns();
  signal_job(job, SIGTERM);
  while (base::now_ns() - start_ns < give_up_ns) {
    const timespec pause{0, 50'000'000};
    nanosleep(&pause, nullptr);
    const bool gentle = base::now_ns() - start_ns < gentle_ns;
    if (signal_job(job, gentle ? 0 : SIGKILL) == 0) break;
  }
  remove_segments(segments);
}

void remove_pool(const std::string& spec) {
  // Only this run uses that name: anything under it, whole or half made, may be removed.
  (void)pool::remove(spec, true);
  const auto parts = device::parse_spec(spec);
  if (!parts) return;
  for (const device::Part& part : *parts) unlink(part.path.c_str());
}

[[noreturn]] void keep_watch(int run_alive, const Janitor::Charge& charge) {
  setsid();  // so that a terminal's Ctrl-C and hang-up do not reach the janitor
  prctl(PR_SET_NAME, "penstock-tidy");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  char byte;
  while (read(run_alive, &byte, 1) < 0 && errno == EINTR) {
  }
  end_job(charge.job, read_segments(charge.folder));
  if (!charge.pool.empty()) remove_pool(charge.pool);
  std::error_code ignored;
  std::filesystem::remove_all(charge.folder, ignored);
  _exit(0);
}

/// Whether this is the folder of a run whose processes have all been dead for some seconds.
bool is_of_the_killed(const std::filesystem::path& folder) {
  constexpr std::int64_t quiet_s = 10;
  constexpr std::string_view prefix = "penstock-";
  const std::string name = folder.filename();
  struct stat status;
  if (!name.starts_with("penstock-run-") || !pool::maker_has_ended(name.substr(prefix.size())))
    return false;
  if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  return status.st_uid == geteuid() && time(nullptr) - status.st_mtime >= quiet_s &&
         processes_of(name.substr(prefix.size())).empty();
}

}  // namespace

void tidy_after_the_killed(const std::string& temporary) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(temporary, ignored)) {
    if (!is_of_the_killed(entry.path())) continue;
    remove_segments(read_segments(entry.path()));
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

Result<Janitor> Janitor::start(const Charge& charge) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return fail(ErrorCode::internal, "cannot make a pipe: {}", strerror(errno));
  }
  Descriptor ear(ends[0]), alive(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return fail(ErrorCode::internal, "cannot start a process: {}", strerror(errno));
  if (pid == 0) {
    alive.reset();
    keep_watch(ear.get(), charge);
  }
  return Janitor(pid, std::move(alive));
}

Janitor::~Janitor() {
  if (pid_ < 0) return;
  alive_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace penstock::tools
