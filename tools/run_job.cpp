#include "run_job.hpp"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "command.hpp"
#include "job_processes.hpp"

namespace penstock::tools {
namespace {

constexpr std::uint64_t terminate_after_ns = 2'000'000'000;  ///< after the first signal
constexpr std::uint64_t kill_after_ns = 5'000'000'000;
constexpr std::uint64_t orphaned_ns = 10'000'000'000;  ///< for a launcher to end after its ranks
                                                       ///< have ended
constexpr std::uint64_t last_words_ns = 500'000'000;   ///< for ranks that are being killed
constexpr std::uint64_t closely_ns = 60'000'000'000;  ///< in this time ranks are expected to attach
constexpr int closely_ms = 20, calmly_ms = 200;
// Event data of the epoll, other than pids of ranks.
constexpr std::uint64_t signal_event = ~0ull, launcher_event = ~1ull, exit_log_event = ~2ull;

sigset_t passed_on() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  return set;
}

/// While it lives, the signals that are passed on do not interrupt this thread.
class BlockedSignals {
 public:
  BlockedSignals() {
    const sigset_t set = passed_on();
    sigprocmask(SIG_BLOCK, &set, &before_);
  }
  ~BlockedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

[[noreturn]] void become(const JobPlan& plan, const sigset_t& mask) {
  for (const auto& [name, value] : plan.environment)
    value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  std::vector<char*> arguments;
  for (const std::string& argument : plan.command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execv(arguments[0], arguments.data());
  fmt::print(stderr, "penstock: error: cannot run {}: {}\n", plan.command[0], strerror(errno));
  _exit(127);
}

class Supervisor {
 public:
  Supervisor(const JobPlan& plan, pid_t launcher, JobWatch watch, Descriptor epoll)
      : plan_(plan), launcher_(launcher), watch_(std::move(watch)), epoll_(std::move(epoll)) {}

  Result<JobOutcome> supervise() {
    const sigset_t signals = passed_on();
    signals_ = Descriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    process_ = open_process(launcher_);
    if (!signals_.valid() || !process_.valid()) {
      kill(launcher_, SIGKILL);
      waitpid(launcher_, nullptr, 0);
      return fail(ErrorCode::internal, "cannot watch the launcher: {}", strerror(errno));
    }
    add(signals_.get(), signal_event);
    add(process_.get(), launcher_event);
    add(watch_.exit_log_descriptor(), exit_log_event);
    start_ns_ = base::now_ns();
    while (!ended_) step();
    // A launcher that kills the other ranks may end before they do, and before the rank that caused
    // it.
    const std::uint64_t ended_ns = base::now_ns();
    while (outcome_.status != 0 && !watch_.all_ended() && base::now_ns() - ended_ns < last_words_ns)
      step();
    watch_.finish(outcome_.status != 0);
    if (!outcome_.first_death) outcome_.first_death = watch_.first_death();
    outcome_.unfinalized = watch_.unfinalized();
    outcome_.totals = watch_.totals();
    return outcome_;
  }

 private:
  void add(int fd, std::uint64_t what) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = what;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void step() {
    const bool closely = watch_.starting(plan_.ranks) && base::now_ns() - start_ns_ < closely_ns;
    epoll_event events[16];
    const int count = epoll_wait(epoll_.get(), events, 16, closely ? closely_ms : calmly_ms);
    if (count <= 0) watch_.sample_when_due();
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == signal_event) {
        take_signal();
      } else if (events[i].data.u64 == launcher_event) {
        take_end();
      } else if (events[i].data.u64 == exit_log_event) {
        watch_.on_exit_log();
      } else {
        watch_.on_exit(static_cast<pid_t>(events[i].data.u64));
      }
    }
    escalate();
  }

  void take_signal() {
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof info) != sizeof info) return;
    const int signal = static_cast<int>(info.ssi_signo);
    if (outcome_.interrupted_by) {
      signal_job(plan_.job, SIGKILL);  // a second request: at once
      return;
    }
    watch_.sample();  // while the ranks live: their mappings show which segments they made
    outcome_.interrupted_by = signal;
    interrupted_ns_ = base::now_ns();
    // A terminal's Ctrl-C has already reached the launcher, which is in this process group.
    const bool from_terminal = info.ssi_code == SI_KERNEL;
    if (!from_terminal) kill(launcher_, signal == SIGINT ? SIGINT : SIGTERM);
  }

  /// Some launchers do not end although all their ranks have.
  void end_orphaned() {
    if (ended_ || !watch_.lost_all()) {
      lost_all_ns_ = 0;
    } else if (lost_all_ns_ == 0) {
      lost_all_ns_ = base::now_ns();
    } else if (base::now_ns() - lost_all_ns_ > orphaned_ns) {
      signal_job(plan_.job, SIGKILL);
    }
  }

  void escalate() {
    end_orphaned();
    if (!outcome_.interrupted_by || ended_) return;
    const std::uint64_t since_ns = base::now_ns() - interrupted_ns_;
    if (since_ns > kill_after_ns) {
      signal_job(plan_.job, SIGKILL);
    } else if (since_ns > terminate_after_ns && !terminated_) {
      terminated_ = true;
      signal_job(plan_.job, SIGTERM);
    }
  }

  void take_end() {
    int status = 0;
    if (waitpid(launcher_, &status, WNOHANG) != launcher_) return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process_.get(), nullptr);
    outcome_.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    // Its ranks end because it does; what they report comes after that.
    if (WIFSIGNALED(status) && !watch_.has_blame() && !outcome_.interrupted_by)
      outcome_.first_death = JobWatch::Death{plan_.command.front(), verdict_of(status), true};
    ended_ = true;
  }

  const JobPlan& plan_;
  pid_t launcher_;
  JobWatch watch_;
  Descriptor epoll_, signals_, process_;
  JobOutcome outcome_;
  std::uint64_t start_ns_ = 0, interrupted_ns_ = 0, lost_all_ns_ = 0;
  bool ended_ = false, terminated_ = false;
};

}  // namespace

/// The pool's file was truncated while this process read it. The janitor ends the job and cleans
/// up.
extern "C" void end_for_a_cut_file(int) {
  constexpr char text[] =
      "penstock run: the pool's file was cut short while the job ran: a process that touches what "
      "is missing "
      "ends by SIGBUS; the job was ended\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(exit_error);
}

Result<JobOutcome> run_job(const JobPlan& plan) {
  signal(SIGBUS, end_for_a_cut_file);
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return fail(ErrorCode::internal, "cannot make an epoll: {}", strerror(errno));
  auto watch = PENSTOCK_TRY(JobWatch::start(plan.pool, plan.job, plan.exit_log, epoll.get()));
  const BlockedSignals blocked;
  const pid_t launcher = fork();
  if (launcher < 0) return fail(ErrorCode::internal, "cannot start a process: {}", strerror(errno));
  if (launcher == 0) become(plan, blocked.before());
  return Supervisor(plan, launcher, std::move(watch), std::move(epoll)).supervise();
}

}  // namespace penstock::tools
