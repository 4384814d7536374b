#include "pool/liveness.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/clock.hpp"

namespace penstock::pool {

bool Liveness::alive(std::uint64_t token) {
  if (token == 0) return false;
  if (is_attaching(token)) return attaching_alive(token);
  const auto slot = static_cast<std::uint32_t>(slot_of(token));
  if (slot >= processes_.slots()) return false;
  const SlotView view = processes_.state(slot);
  // The owner is detaching, died while detaching, or is about to repair an overwritten line: the
  // line does not identify its owner.
  const auto beating_generation = view.whole && view.line.generation >= generation_of(token)
                                      ? std::nullopt
                                      : processes_.beating_generation(slot);
  if (!view.whole) {
    const bool succeeded = beating_generation && *beating_generation > generation_of(token);
    return !succeeded && beats(token, beat_of(token).value_or(0));
  }
  // nor does a late store by the slot's previous process
  if (beating_generation && *beating_generation == generation_of(token))
    return beats(token, beat_of(token).value_or(0));
  return view.line.generation == generation_of(token) && alive(view);
}

bool Liveness::alive(const SlotView& view) {
  if (!view.whole) return alive(make_token(processes_.generation(view), view.slot));
  if (view.line.state != static_cast<std::uint32_t>(SlotState::attached)) return false;
  const Witness who = witness(view);
  if (who == Witness::copied) return false;
  if (who == Witness::kernel) {
    const auto known = exists_cached(view.line.pid, view.line.start_time);
    if (known) return *known;
  }
  const std::uint64_t token = make_token(view.line.generation, view.slot);
  return beats(token, processes_.beat(view.slot, view.line.generation).value_or(0));
}

Liveness::Witness Liveness::witness(const SlotView& view) {
  const bool copied = device::same_file(view.line.file, self_.pool_file) == device::SameFile::no;
  if (!copied && !in_same_scope(view.line.scope, view.line.file)) return Witness::heartbeat;
  // a process of another host may have stored the line late, over that of the slot's owner here
  if (view.line.host != host_word(host_.boot_id)) return Witness::heartbeat;
  if (!is_here(view).value_or(false)) return Witness::heartbeat;
  return copied ? Witness::copied : Witness::kernel;
}

/// True if its slot says that it is on this host; nullopt: that line is unreadable. An attachment
/// does not move, so its line is read once.
std::optional<bool> Liveness::is_here(const SlotView& view) {
  const std::lock_guard lock(mutex_);
  Origin& known = origins_[view.slot];
  if (known.generation != view.line.generation) {
    const auto origin = processes_.origin(view.slot);
    if (!origin) return std::nullopt;
    known = {view.line.generation, origin->boot_id == host_.boot_id};
  }
  return known.this_host;
}

bool Liveness::runs_here(const SlotView& view) {
  if (!view.whole || view.line.state != static_cast<std::uint32_t>(SlotState::attached)) {
    return false;
  }
  // checks without device access come first: most processes are on other hosts
  const bool known_pid = in_same_scope(view.line.scope, view.line.file);
  if (known_pid && ::kill(static_cast<pid_t>(view.line.pid), 0) != 0 && errno == ESRCH)
    return false;
  if (!is_here(view).value_or(false)) return false;
  return known_pid || alive(view);
}

bool Liveness::of_this_host(std::uint64_t token) const {
  if (is_attaching(token)) {
    const auto line = attaching_.read(attaching_number_of(token));
    return line && line->generation == generation_of(token) && line->boot_id == host_.boot_id;
  }
  const auto slot = static_cast<std::uint32_t>(slot_of(token));
  const SlotView view = processes_.state(slot);
  if (!view.whole || view.line.generation != generation_of(token)) return false;
  const auto origin = processes_.origin(slot);
  return origin && origin->boot_id == host_.boot_id;
}

bool Liveness::attaching_alive(std::uint64_t token) {
  const std::uint64_t number = attaching_number_of(token);
  if (!attaching_.has(number)) return false;
  const auto [line, whole] = attaching_.look(number);
  if (!whole) return beats(token, 0);  // being written now, or its writer died while writing it
  if (line.generation != generation_of(token) || line.beat == 0) return false;
  if (line.boot_id == host_.boot_id) {
    if (device::same_file(line.file, self_.pool_file) == device::SameFile::no) return false;
    const auto known =
        in_same_scope(line.scope, line.file) ? exists(line.pid, line.start_time) : std::nullopt;
    if (known) return *known;
  }
  return beats(token, line.beat);
}

std::optional<bool> Liveness::exists(std::uint64_t pid, std::uint64_t start_time) const {
  if (pid == 0 || pid > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())) {
    return false;
  }
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return false;
  const auto stat = read_proc_stat(pid);
  if (!stat) {
    // it has ended meanwhile, or is hidden from us (hidepid)
    if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return false;
    return std::nullopt;
  }
  // a process whose first thread has ended shows as a zombie while its other threads run
  const bool ended = stat->state == 'X' || (stat->state == 'Z' && stat->threads <= 1);
  if (stat->start_time == start_time && !ended) return true;
  // another /proc may be mounted by now, or this process may have other clocks
  const auto own = read_proc_stat(self_.pid);
  if (!own || own->start_time != self_.start_time) return std::nullopt;
  return false;
}

/// As exists(), but reads /proc at most 125 times a second in all: with many processes each one
/// less often, because hundreds of waiting processes on few cores would slow each other down.
/// Between readings kill(pid, 0) shows whether the pid exists; a zombie, or a successor with the
/// same number, is noticed at the next reading.
std::optional<bool> Liveness::exists_cached(std::uint64_t pid, std::uint64_t start_time) {
  constexpr std::size_t few = 16;
  constexpr std::uint64_t between_readings_ns = 8'000'000, longest_ns = 1'000'000'000;
  const std::uint64_t now = base::now_ns();
  {
    const std::lock_guard lock(mutex_);
    const auto read = readings_.find(pid);
    const std::uint64_t fresh_ns = std::min(readings_.size() * between_readings_ns, longest_ns);
    const bool fresh = readings_.size() > few && read != readings_.end() &&
                       read->second.start_time == start_time && now - read->second.at_ns < fresh_ns;
    if (fresh && (::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH)) return true;
  }
  const auto known = exists(pid, start_time);
  const std::lock_guard lock(mutex_);
  // forgets processes that have left
  std::erase_if(readings_,
                [&](const auto& read) { return now - read.second.at_ns > 10 * longest_ns; });
  if (known == true)
    readings_[pid] = {start_time, now};
  else
    readings_.erase(pid);
  return known;
}

std::optional<std::uint64_t> Liveness::beat_of(std::uint64_t token) const {
  if (!is_attaching(token)) {
    return processes_.beat(static_cast<std::uint32_t>(slot_of(token)), generation_of(token));
  }
  const auto line = attaching_.read(attaching_number_of(token));
  if (!line || line->generation != generation_of(token)) return std::nullopt;
  return line->beat;
}

void Liveness::stay_awake() {
  const std::lock_guard lock(mutex_);
  clock_.now_ns();
}

bool Liveness::beats(std::uint64_t token, std::uint64_t beat) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now = clock_.now_ns();
  auto [entry, first_look] = seen_.try_emplace(token, Seen{beat, now});
  Seen& seen = entry->second;
  if (seen.declared_dead) return false;
  if (first_look || seen.beat != beat) {
    seen = Seen{beat, now};
    return true;
  }
  if (now - seen.since_ns <= lease_ns_) return true;
  if (judge_) {
    judge_(token);
    // it may have resumed just now and looked for a verdict before there was one
    const auto again = beat_of(token);
    if (again && *again != beat) {
      seen = Seen{*again, now};
      return true;
    }
    seen.declared_dead = true;
  }
  return false;
}

LifeWatch::Verdict LifeWatch::look(const SlotView& view) {
  if (!liveness_.alive(view)) return Verdict::dead;
  if (view.whole && !liveness_.judged_by_heartbeat(view)) return Verdict::alive;
  const std::uint64_t generation = processes_.generation(view);
  const std::uint64_t beat = processes_.beat(view.slot, generation).value_or(0);
  const std::uint64_t token = make_token(generation, view.slot);
  const auto [first, first_look] = first_beats_.try_emplace(token, beat);
  return first->second != beat ? Verdict::alive : Verdict::undecided;
}

bool Liveness::still_exists(const SlotView& view) const {
  if (!may_exist(view)) return false;
  const auto origin = processes_.origin(view.slot);
  return origin && origin->boot_id == host_.boot_id;
}

}  // namespace penstock::pool
