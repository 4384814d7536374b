#include "job_watch.hpp"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/clock.hpp"
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

/// An MPI makes its segments while it starts, soon after the process attached to the pool.
constexpr std::uint64_t starting_ns = 3'000'000'000;

}  // namespace

Result<JobWatch> JobWatch::start(const std::string& pool, const std::string& job,
                                 const std::string& roll, int epoll) {
  pool::AttachOptions options;
  options.spec = pool;
  options.observer = true;
  auto attached = pool::Pool::attach(options);
  if (!attached) return tl::unexpected(attached.error());
  auto watched = pool::Roll::watch(roll, (*attached)->info().id);
  if (!watched) return tl::unexpected(watched.error());
  return JobWatch(std::move(*attached), job, std::move(*watched), epoll);
}

void JobWatch::sample() {
  for (pool::ProcessRecord& record : pool_->processes()) {
    if (record.job != job_) continue;
    Rank& rank = ranks_[Key{record.slot, record.generation}];
    const bool is_new = rank.record.pid == 0;
    rank.record = std::move(record);
    if (is_new && rank.record.attached) watch_process(rank);
  }
  note_segments();
}

void JobWatch::watch_process(Rank& rank) {
  if (rank.record.host != own_host()) return;
  rank.process = open_process(static_cast<pid_t>(rank.record.pid));
  if (!rank.process.valid()) return;
  rank.seen_ns = base::now_ns();
  last_seen_ns_ = rank.seen_ns;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<std::uint64_t>(rank.record.pid);
  epoll_ctl(epoll_, EPOLL_CTL_ADD, rank.process.get(), &event);
}

/// Into the mappings, which costs a core a millisecond a rank, only when there is what may be ours.
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
}

std::size_t JobWatch::processes() const {
  std::set<ProcessKey> found;
  for (const auto& [key, rank] : ranks_) found.insert(process_key(rank.record));
  return found.size();
}

bool JobWatch::starting(std::uint32_t ranks) const {
  if (processes() < ranks) return true;
  return segments_.empty() && base::now_ns() - last_seen_ns_ < starting_ns;
}

bool JobWatch::lost_all() const {
  if (ended_.empty()) return false;
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const auto& entry) { return entry.second.process.valid(); });
}

void JobWatch::read_roll() {
  for (const pool::Roll::Entry& entry : roll_.ended()) {
    ended_.emplace_back(entry.slot, entry.generation);
  }
}

void JobWatch::on_exit(pid_t pid) {
  const auto verdict = zombie_verdict(pid);
  read_roll();
  for (auto& [key, rank] : ranks_) {
    if (rank.record.pid != pid || !rank.process.valid()) continue;
    rank.process.reset();
    if (verdict) rank.verdict = *verdict;
  }
}

const JobWatch::Rank* JobWatch::first_dead() const {
  for (const Key& key : ended_) {
    const auto found = ranks_.find(key);
    if (found != ranks_.end()) return &found->second;
  }
  // Those of other hosts are not on the roll.
  for (const auto& [key, rank] : ranks_) {
    if (rank.record.attached && !rank.record.alive) return &rank;
  }
  return nullptr;
}

void JobWatch::finish() {
  sample();
  read_roll();
  if (const Rank* rank = first_dead()) first_death_ = Death{name_of(rank->record), rank->verdict};
  remove_segments(segments_);
}

JobTotals JobWatch::totals() const {
  JobTotals totals;
  std::set<std::int32_t> ranks;
  std::set<std::pair<std::string, std::uint32_t>> nodes;
  for (const auto& [key, rank] : ranks_) {
    ranks.insert(rank.record.rank);
    nodes.insert({rank.record.host, rank.record.node});
    totals.messages += rank.record.messages_sent;
    totals.bytes += rank.record.bytes_sent;
  }
  totals.ranks = static_cast<std::uint32_t>(ranks.size());
  totals.nodes = static_cast<std::uint32_t>(nodes.size());
  return totals;
}

}  // namespace penstock::tools
