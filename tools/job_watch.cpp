#include "job_watch.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/clock.hpp"
#include "command.hpp"
#include "pool/members.hpp"
#include "processes.hpp"

namespace penstock::tools {
namespace {

std::string own_host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string name_of(const pool::ProcessRecord& record) {
  const std::string rank = record.rank < 0 ? "a process" : fmt::format("rank {}", record.rank);
  return fmt::format("{} (pid {}, {})", rank, record.pid, pool::node_text(record));
}

using Kind = pool::ExitLog::Event::Kind;

/// Whether a rank ended by a signal that launchers send to the remaining ranks.
bool ended_by_launcher(int wait_status) {
  return WIFSIGNALED(wait_status) &&
         (WTERMSIG(wait_status) == SIGKILL || WTERMSIG(wait_status) == SIGTERM);
}

/// An MPI makes its segments while it starts, soon after the process has attached to the pool.
constexpr std::uint64_t starting_ns = 3'000'000'000;

}  // namespace

Result<JobWatch> JobWatch::start(const std::string& pool, const std::string& job,
                                 const std::string& exit_log, int epoll) {
  auto attached = PENSTOCK_TRY(observe(pool));
  auto watched = PENSTOCK_TRY(pool::ExitLog::watch(exit_log, attached->info().id));
  return JobWatch(std::move(attached), job, std::move(watched), exit_log, epoll);
}

void JobWatch::sample() {
  constexpr std::uint64_t pauses = 20;  // multiples of the time that a look takes
  const std::uint64_t begun_ns = base::now_ns();
  for (pool::ProcessRecord& record : pool_->members().processes()) {
    if (record.job != job_ || record.rank == pool::helper_rank) continue;
    Rank& rank = ranks_[Key{record.slot, record.generation}];
    const bool is_new = rank.record.pid == 0;
    rank.record = std::move(record);
    if (!is_new) continue;
    processes_.insert(process_key(rank.record));
    if (rank.record.attached || early_.contains(rank.record.pid)) watch_process(rank);
  }
  note_segments();
  const std::uint64_t now_ns = base::now_ns();
  next_sample_ns_ = now_ns + pauses * (now_ns - begun_ns);
}

void JobWatch::sample_when_due() {
  if (base::now_ns() >= next_sample_ns_) sample();
}

void JobWatch::watch_early(std::int64_t pid) {
  Early early{.process = open_process(static_cast<pid_t>(pid)), .wait_status = {}};
  if (early.process.valid()) early_.insert_or_assign(pid, std::move(early));
}

void JobWatch::watch_process(Rank& rank) {
  if (rank.record.host != own_host()) return;
  if (const auto early = early_.find(rank.record.pid); early != early_.end()) {
    rank.process = std::move(early->second.process);
    rank.wait_status = early->second.wait_status;
    early_.erase(early);
  } else {
    rank.process = open_process(static_cast<pid_t>(rank.record.pid));
  }
  if (!rank.process.valid()) return;
  rank.seen_ns = base::now_ns();
  last_seen_ns_ = rank.seen_ns;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<std::uint64_t>(rank.record.pid);
  epoll_ctl(epoll_, EPOLL_CTL_ADD, rank.process.get(), &event);
}

/// Reads mappings, which costs a core a millisecond for each rank, only if new segments may be this
/// job's.
void JobWatch::note_segments() {
  if (base::now_ns() - last_seen_ns_ > starting_ns) return;  // no rank is starting
  const auto there = mpi_segments();
  const bool unknown = std::any_of(there.begin(), there.end(), [&](const std::string& segment) {
    return !foreign_.contains(segment) && !segments_.contains(segment);
  });
  if (!unknown) return;
  for (const auto& [key, rank] : ranks_) {
    if (!rank.process.valid() || base::now_ns() - rank.seen_ns > starting_ns) continue;
    segments_.merge(mpi_segments_of(static_cast<pid_t>(rank.record.pid)));
  }
  write_segments(folder_, segments_);
}

bool JobWatch::starting(std::uint32_t ranks) const {
  if (processes_.size() < ranks) return true;
  return segments_.empty() && base::now_ns() - last_seen_ns_ < starting_ns;
}

bool JobWatch::lost_all() const {
  const bool died = std::any_of(ranks_.begin(), ranks_.end(), [this](const auto& entry) {
    return entry.second.ended && exit_log_.stayed(entry.first.first, entry.first.second);
  });
  return died && all_ended();
}

bool JobWatch::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    return entry.second.ended || !entry.second.process.valid();
  });
}

/// Asks for its exit status at once: its launcher waits for it too, and a kernel before 6.15 keeps
/// no status of a process that was waited for.
void JobWatch::note_end(std::int64_t pid) {
  if (const auto early = early_.find(pid); early != early_.end() && !early->second.wait_status)
    early->second.wait_status = status_of_ended(static_cast<pid_t>(pid), early->second.process);
  for (auto& [key, rank] : ranks_) {
    if (rank.record.pid != pid || !rank.process.valid()) continue;
    if (!rank.wait_status)
      rank.wait_status = status_of_ended(static_cast<pid_t>(pid), rank.process);
  }
}

void JobWatch::on_exit_log() {
  const auto events = exit_log_.events();
  // The exit status of a process that is not watched when it ends stays unknown.
  bool some_attached = false;
  for (const pool::ExitLog::Event& event : events) {
    if (event.kind != Kind::attached) continue;
    watch_early(event.pid);
    some_attached = true;
  }
  if (some_attached) sample_when_due();
  for (const pool::ExitLog::Event& event : events) {
    if (event.kind == Kind::attached) continue;
    ends_.push_back(event);
    if (event.kind == Kind::ended) note_end(event.pid);
  }
}

void JobWatch::on_exit(pid_t pid) {
  note_end(pid);
  on_exit_log();
  for (auto& [key, rank] : ranks_) {
    if (rank.record.pid != pid || rank.ended) continue;
    rank.ended = true;
    if (rank.process.valid()) epoll_ctl(epoll_, EPOLL_CTL_DEL, rank.process.get(), nullptr);
  }
}

const JobWatch::Rank* JobWatch::rank_of(std::int64_t pid) const {
  const Rank* found = nullptr;
  for (const auto& [key, rank] : ranks_) {
    if (rank.record.pid != pid || rank.record.host != own_host()) continue;
    if (found == nullptr || rank.wait_status) found = &rank;
  }
  return found;
}

bool JobWatch::stayed(std::int64_t pid) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
    const auto& [key, rank] = entry;
    return rank.record.pid == pid && exit_log_.stayed(key.first, key.second);
  });
}

std::int64_t JobWatch::pid_of(const pool::ExitLog::Event& event) const {
  if (event.kind != Kind::left) return event.pid;
  const auto found = ranks_.find(Key{event.slot, event.generation});
  return found == ranks_.end() ? 0 : found->second.record.pid;
}

/// The text about a process that failed.
std::optional<JobWatch::Death> JobWatch::blame(const pool::ExitLog::Event& end) const {
  const Rank* const rank = rank_of(end.pid);
  if (rank == nullptr) return std::nullopt;
  const std::string who = name_of(rank->record);
  if (end.kind == Kind::fails && exit_log_.error_pending(end))
    return Death{who, "met an error that MPI ended the job for (its message is above)", false};
  if (end.kind == Kind::aborts)
    return Death{who, fmt::format("called MPI_Abort with code {}", end.abort_code), false};
  if (end.kind != Kind::ended) return std::nullopt;
  const bool left_behind = stayed(end.pid);
  if (!left_behind && rank->wait_status.value_or(0) == 0) return std::nullopt;
  if (status_of(*rank) == 0 && all_exited_by_themselves()) return std::nullopt;
  const std::string how = rank->wait_status ? verdict_of(*rank->wait_status) : "ended";
  return Death{who, how + (left_behind ? " without finalizing MPI" : ""),
               ended_by_launcher(rank->wait_status.value_or(0))};
}

/// A launcher may collect a rank's status before it is read here; then the launcher's own status
/// tells about all ranks.
std::optional<int> JobWatch::status_of(const Rank& rank) const {
  return rank.wait_status || !done_well_ ? rank.wait_status : std::optional(0);
}

/// True if no rank was killed, called MPI_Abort or met an error of MPI, as ranks do whose peer is
/// dead.
bool JobWatch::all_exited_by_themselves() const {
  const bool failed = std::any_of(ends_.begin(), ends_.end(), [&](const auto& event) {
    return event.kind == Kind::aborts ||
           (event.kind == Kind::fails && exit_log_.error_pending(event));
  });
  return !failed && std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
    const auto status = status_of(entry.second);
    return status && WIFEXITED(*status);
  });
}

std::optional<std::string> JobWatch::find_unfinalized() const {
  if (!all_exited_by_themselves()) return std::nullopt;
  for (const auto& [key, rank] : ranks_)
    if (exit_log_.stayed(key.first, key.second)) return name_of(rank.record);
  return std::nullopt;
}

/// A rank that finalizes MPI while others wait for it, as a Python program does after an exception,
/// makes their calls fail, and the launcher then kills all ranks: it ends later than they do.
std::optional<JobWatch::Death> JobWatch::blame_leaver(const pool::ExitLog::Event& left,
                                                      bool has_victims) const {
  const Rank* const rank = rank_of(pid_of(left));
  if (rank == nullptr) return std::nullopt;
  const int status = rank->wait_status.value_or(0);
  if (status != 0 && !ended_by_launcher(status))
    return Death{name_of(rank->record), verdict_of(status), false};
  if (!has_victims || (status == 0 && rank->wait_status)) return std::nullopt;
  return Death{name_of(rank->record), "left MPI while others waited for it", false};
}

std::optional<JobWatch::Death> JobWatch::find_first() const {
  std::vector<pool::ExitLog::Event> leavers;
  std::set<std::int64_t> leave;
  std::int64_t gone_alone = 0;  // finalized before any other rank had begun to
  for (const pool::ExitLog::Event& event : ends_) {
    if (event.kind == Kind::left || event.kind == Kind::finalizes) {
      leavers.push_back(event);
      leave.insert(pid_of(event));
      if (event.kind == Kind::left && leave.size() == 1) gone_alone = pid_of(event);
    }
    const auto death = blame(event);
    if (!death) continue;
    if (event.kind == Kind::aborts) return death;
    const bool by_itself = event.kind == Kind::fails || (!death->was_killed && !stayed(event.pid));
    for (const auto& leaver : leavers) {
      const bool was_first = pid_of(leaver) == gone_alone;
      // if several finalize, those wait for the others
      const bool alone = was_first || leave.size() == 1;
      const bool victims = death->was_killed ? alone : by_itself && was_first;
      if (auto first = blame_leaver(leaver, victims)) return first;
    }
    return death;
  }
  // Ranks of other hosts are not in the exit log.
  for (const auto& [key, rank] : ranks_) {
    if (rank.record.host == own_host() && all_exited_by_themselves()) continue;
    if (rank.record.attached && !rank.record.alive)
      return Death{name_of(rank.record), "ended without finalizing MPI", false};
  }
  return std::nullopt;
}

/// Chooses among the others if the first rank that ended was killed: it may be a victim of the
/// launcher, which ends the waiting ranks before the one that called for it.
std::string JobWatch::others_text() const {
  bool all_killed = processes_.size() > 1;
  for (const auto& [key, rank] : ranks_) {
    const int status = rank.wait_status.value_or(0);
    if (status != 0 && !ended_by_launcher(status))
      return fmt::format("; {} {}", name_of(rank.record), verdict_of(status));
    all_killed = all_killed && ended_by_launcher(status);
  }
  if (!all_killed) return "";
  return ", as were all: by their launcher when an MPI gives up, which says why above, or by the "
         "kernel for want of memory (dmesg)";
}

void JobWatch::finish(bool failed) {
  done_well_ = !failed;
  sample();
  for (const auto& [key, rank] : ranks_)
    if (rank.process.valid()) note_end(rank.record.pid);
  on_exit_log();
  first_death_ = find_first();
  if (!first_death_) unfinalized_ = find_unfinalized();
  if (first_death_ && first_death_->was_killed) first_death_->how += others_text();
  remove_segments(segments_);
  if (!failed && !first_death_ && !unfinalized_) return;
  // Ranks that died while they started were not examined.
  auto unknown = mpi_segments();
  std::erase_if(unknown, [&](const std::string& segment) { return foreign_.contains(segment); });
  remove_segments(abandoned_segments(unknown, job_));
}

JobTotals JobWatch::totals() const {
  JobTotals totals;
  std::set<std::pair<std::string, std::uint32_t>> nodes;
  for (const auto& [key, rank] : ranks_) {
    nodes.insert({rank.record.host, rank.record.node});
    totals.messages += rank.record.messages_sent;
    totals.bytes += rank.record.bytes_sent;
  }
  // counted by process: spawned ranks reuse the numbers of others
  totals.ranks = static_cast<std::uint32_t>(processes_.size());
  totals.nodes = static_cast<std::uint32_t>(nodes.size());
  totals.calls = pool::read_job_counts(folder_);
  return totals;
}

}  // namespace penstock::tools
