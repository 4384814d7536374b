// Lamport's bakery over one line per participant. Line i, written on behalf of participant i only:
//
//   | 0: token | 1: number | 2: choosing | 3: shared | 4..6: 0 | 7: checksum |
//
// The checksum covers the other words and arrives last, so a reader recognizes a line that it has
// seen only in part, and reads it again. A CPU without 64-byte stores may be killed in the middle
// of a publish. Its token is in the line by then: a line that still holds the token of the
// participant's previous process is first taken over by publishing the token alone.
//
// Why it excludes (Lamport 1974): a participant publishes `choosing`, then reads all numbers, then
// publishes its own, greater one. Both publishes must be visible before the reads that follow:
// store -> load order, which `store_fence` alone does not give. The `full_fence` after each publish
// below does.
//
// Fast path: if no other participant is choosing or queued, the lock is ours at once, while we are
// still choosing. A participant that arrives now finds us choosing and waits; one that arrived
// earlier would have been found.
//
// A participant that shares the lock draws a number like the others and does not wait for other
// sharers. A sharer that was passed over cannot turn into an exclusive holder: it would have to
// draw a greater number.
//
// An exclusive request that meets the same sharer for long withdraws its number until that sharer
// has left: sharers that queue behind the number may hold other locks that the sharer waits for. No
// participant draws a number twice, so its departure is noticed even if it is back before the next
// look.
//
// The dead: a line whose token is dead is passed over. That is safe because it was read after our
// number was published: a process that takes over the line chooses later, sees our number and draws
// a greater one. A line without a token and with a wrong checksum is passed over too: its writer
// has not yet published its token, and chooses after that.
//
// Participants that join later (LockLines): their list is read after `choosing` was published. A
// participant that is not in the list then joins later, and publishes its own `choosing` later
// still: as if its line had been read and found idle. The list is read once more after our number
// was published: a participant that joined in between may have drawn a smaller number without
// having seen ours.
//
// Overwritten lines: a waiting participant reads its own line too, and publishes it again.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/cpus.hpp"
#include "base/format.hpp"
#include "base/pace.hpp"
#include "base/wait.hpp"
#include "sync/lock_line.hpp"
#include "sync/sync.hpp"

namespace penstock::sync {

namespace {

using Line = LockLine;

/// Numbers grow by one per acquisition: a valid number is never greater than this.
constexpr std::uint64_t greatest_number = std::uint64_t{1} << 62;

/// A holder makes a few device accesses, unless it has lost its core: spinning would then delay it.
constexpr base::WaitPolicy wait_policy{
    .spins = 100, .yields = 1000, .sleep_ns = 50'000, .late_sleep_ns = 100'000};

/// Looks at a sharer before an exclusive request makes way for it: they take longer than a get.
constexpr std::uint32_t first_looks = 500;
constexpr std::uint32_t max_first_looks = 100 * first_looks;
constexpr std::uint32_t forever = 0;
/// With at most this many participants before it, a participant polls all the time; with more, it
/// polls as if each held the lock for no longer than this.
constexpr std::size_t near_front = 2;
constexpr std::uint64_t short_hold_ns = 4'000;
/// After this many looks in vain at the first in line, at a slow pace, a participant asks once
/// whether that one lives: a dead holder then costs these looks, and not the wait for the dead
/// check. Where looks cost the device nothing the pace is never slow; then after the greater number
/// of looks.
constexpr std::uint32_t looks_in_vain = 20, max_looks_in_vain = 1000;
/// With at most this many participants before it, a participant stays awake while they pass, if
/// each has a core: together they take no longer than a sleep.
constexpr std::size_t awake_line = 32;

bool whole(const Line& line) {
  return line.checksum == lock_checksum(line);
}

class Entries {
 public:
  Entries(const coherence::Memory& memory, const LockPlace& place)
      : memory_(memory), place_(place) {}
  Entries(const coherence::Memory& memory, LockLines& joined, std::uint32_t self)
      : memory_(memory), joined_(&joined), place_{.self = self} {}

  std::uint32_t count() const {
    return joined_ != nullptr ? joined_->count() : place_.participants;
  }

  void publish(std::uint64_t token, std::uint64_t number, bool choosing,
               Hold hold = Hold::exclusive) const {
    Line line{.token = token,
              .number = number,
              .choosing = choosing ? 1u : 0u,
              .shared = hold == Hold::shared ? 1u : 0u};
    line.checksum = lock_checksum(line);
    send(line);
  }

  /// Publishes our line again if anything but a successor has overwritten it.
  void restore() const {
    memory_.invalidate(at(place_.self), 64);
    memory_.load_fence();
    const Line line = load(place_.self);
    if (whole(line) && line.token != published_.token) return;
    if (std::memcmp(&line, &published_, sizeof line) != 0) send(published_);
  }

  /// Does our line name the process that acts for the participant from now on? A stale copy does no
  /// harm: it holds this token only if this process published the line, and then it is not stale.
  bool is_of(std::uint64_t token) const {
    memory_.load_line(&published_, at(place_.self));
    return published_.token == token && whole(published_);
  }

  /// Fetches the lines of `wanted` anew, and with `news` the list of participants: one batch of
  /// invalidations, one fence.
  void refresh(const std::vector<std::uint32_t>& wanted, bool news) const {
    if (joined_ == nullptr && wanted.size() + 1 == place_.participants) {
      memory_.invalidate(place_.lines, 64ull * place_.participants);
    } else {
      for (std::uint32_t i : wanted) memory_.invalidate(at(i), 64);
    }
    if (news && joined_ != nullptr) joined_->invalidate_news();
    memory_.load_fence();
  }
  /// Loads the list; call it after a refresh() with `news`.
  void load_news() const {
    if (joined_ != nullptr) joined_->load_news();
  }

  std::uint64_t device_reads() const { return memory_.device_reads(); }
  Line load(std::uint32_t i) const {
    Line line;
    memory_.load_line(&line, at(i));
    return line;
  }

  /// The other participants from number `from` on to `end`.
  std::vector<std::uint32_t> others(std::uint32_t from, std::uint32_t end) const {
    std::vector<std::uint32_t> list;
    list.reserve(end - from);
    for (std::uint32_t i = from; i < end; ++i) {
      if (i != place_.self) list.push_back(i);
    }
    return list;
  }

 private:
  std::byte* at(std::uint32_t i) const {
    return joined_ != nullptr ? joined_->line(i) : place_.lines + 64ull * i;
  }
  void send(const Line& line) const {
    published_ = line;
    if (place_.past_caches)
      memory_.publish_line(at(place_.self), &line);
    else
      memory_.send_line(at(place_.self), &line);
    memory_.full_fence();
  }

  const coherence::Memory& memory_;
  LockLines* joined_ = nullptr;  ///< null: adjacent lines of a fixed number of participants
  LockPlace place_;
  mutable Line published_;
};

/// Another participant, for which we may have to wait.
struct Rival {
  std::uint64_t token = 0;   ///< as last read
  bool whole = true;         ///< whether its checksum was right then
  bool chosen = false;       ///< whether it was seen not choosing after our number was published
  std::uint64_t number = 0;  ///< at the last look, if it has chosen
  std::uint64_t shared = 0, shared_before = 0;  ///< number under which it shares the lock
};

/// The waits of both phases. `step` looks at one line and returns true when that participant is no
/// longer waited for.
class Queue {
 public:
  Queue(const Entries& entries, const AliveCheck& alive, const AliveCheck& excluded,
        const std::function<void()>& meanwhile)
      : entries_(entries),
        rivals_(entries.count()),
        alive_(alive),
        excluded_(excluded),
        meanwhile_(meanwhile) {}

  /// Forgets all that the wait for an earlier number saw: a line that may be passed over unread may
  /// be in use again.
  void forget() { std::fill(rivals_.begin(), rivals_.end(), Rival{}); }
  void await_all() {
    await(entries_.others(0, known()));
    pace_.reset();  // others may wait until this participant has passed
  }
  /// Call it after the last look of a pass_all() in a queue that `watches_news`. Returns true if
  /// others have joined; they are now waited for.
  bool await_those_who_joined() {
    entries_.load_news();
    const std::uint32_t before = known();
    rivals_.resize(entries_.count());
    await(entries_.others(before, known()));
    return !pending_.empty();
  }
  void watch_news(bool watch) { watches_news_ = watch; }
  /// Waits until `step` is done with all awaited participants; false after `max_looks` looks.
  template <class Step>
  Result<bool> pass_all(base::Waiter& waiter, Step step, std::uint32_t max_looks = forever) {
    for (std::uint32_t looks = 0;;) {
      if (pace_.due()) {
        ++looks;
        looks == max_looks ? look_at_all(step) : look(waiter, step);
        if (pending_.empty()) return true;
        if (looks == max_looks) return false;
      }
      if (meanwhile_) meanwhile_();
      PENSTOCK_TRY(waiter.pause());
    }
  }

  /// Narrows the wait to sharers that have stayed since the last call; false, and no change, if
  /// there are none.
  bool await_those_who_stay() {
    std::vector<std::uint32_t> stay;
    for (const std::uint32_t i : pending_) {
      Rival& rival = rivals_[i];
      if (rival.shared != 0 && rival.shared == rival.shared_before) stay.push_back(i);
      rival.shared_before = rival.shared;
    }
    const bool any = !stay.empty();
    if (any) await(std::move(stay));
    return any;
  }

  /// The waiter's dead check: stops waiting for participants that are dead or never existed. While
  /// the first in line lives, the others need few looks. But where deaths show by heartbeats, a
  /// first look only starts a clock, and that clock must start for all of them at the same time.
  void pass_over_dead() {
    constexpr std::uint32_t checks_between = 16;
    entries_.restore();
    const bool all = dead_checks_++ % checks_between == 0 ||
                     (!pending_.empty() && is_dead(rivals_[pending_.back()]));
    if (all) std::erase_if(pending_, [&](std::uint32_t i) { return is_dead(rivals_[i]); });
  }

  /// Looks at the first in line and, once that one has left, at the next: all later ones wait for
  /// it too. A participant far back in line looks seldom; the next but one looks all the time.
  template <class Step>
  void look(base::Waiter& waiter, Step step) {
    if (!is_line_) {
      look_at_all(step);
    } else {
      while (!pending_.empty() && has_passed(pending_.back(), step)) pending_.pop_back();
      pass_over_first_if_dead();
    }
    const std::size_t before = std::exchange(left_, pending_.size());
    const bool moved = left_ < before;
    if (moved && left_ <= awake_) waiter.spin_again();
    if (left_ > near_front)
      pace_.not_before(left_ * short_hold_ns);
    else if (moved)
      pace_.reset();
  }
  template <class Step>
  void look_at_all(Step step) {
    look_at(pending_, step);
    const auto turn = [&](std::uint32_t i) {
      return std::pair(rivals_[i].chosen ? rivals_[i].number : 0, i);
    };
    std::sort(pending_.begin(), pending_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return turn(a) > turn(b); });
    is_line_ = true;
  }

  std::uint32_t first_pending() const { return pending_.empty() ? 0 : pending_.back(); }
  std::uint64_t token_of(std::uint32_t i) const { return i < known() ? rivals_[i].token : 0; }

 private:
  void pass_over_first_if_dead() {
    if (pending_.empty()) return;
    if (std::exchange(first_, pending_.back()) != pending_.back()) looks_at_first_ = 0;
    if (looks_at_first_ > max_looks_in_vain) return;  // it has been asked already
    ++looks_at_first_;
    if (looks_at_first_ < looks_in_vain) return;
    if (looks_at_first_ < max_looks_in_vain && !pace_.slow()) return;
    looks_at_first_ = max_looks_in_vain + 1;
    if (is_dead(rivals_[first_])) pending_.pop_back();
  }
  std::uint32_t known() const { return static_cast<std::uint32_t>(rivals_.size()); }
  /// One batch of invalidations. Keeps the participants that `step` still waits for.
  template <class Step>
  void look_at(std::vector<std::uint32_t>& those, Step step) {
    const std::uint64_t read = entries_.device_reads();
    entries_.refresh(those, watches_news_);
    std::erase_if(those, [&](std::uint32_t i) {
      const Line line = entries_.load(i);
      const bool is_whole = whole(line);
      rivals_[i].token = line.token;
      rivals_[i].whole = is_whole;
      return is_whole && step(i, line, rivals_[i]);
    });
    pace_.looked(entries_.device_reads() - read);
  }
  bool is_dead(const Rival& rival) const {
    if (!rival.whole && (rival.token == 0 || (excluded_ && excluded_(rival.token)))) return true;
    return rival.token != 0 && alive_ && !alive_(rival.token);
  }
  template <class Step>
  bool has_passed(std::uint32_t participant, Step step) {
    watched_.assign(1, participant);
    look_at(watched_, step);
    return watched_.empty();
  }
  void await(std::vector<std::uint32_t> those) {
    pending_ = std::move(those);
    is_line_ = false;
    left_ = SIZE_MAX;
    looks_at_first_ = 0;
  }

  const Entries& entries_;
  std::vector<Rival> rivals_;           ///< of all participants known in this acquisition
  std::vector<std::uint32_t> pending_;  ///< the first in line stands at the end
  std::vector<std::uint32_t> watched_;
  const std::size_t awake_ = std::clamp<std::size_t>(base::shared_cpus(), near_front, awake_line);
  bool is_line_ = false;         ///< pending_ is in order: all were looked at once
  std::size_t left_ = SIZE_MAX;  ///< length of pending_ at the last look
  std::uint32_t first_ = 0, looks_at_first_ = 0;
  std::uint32_t dead_checks_ = 0;
  bool watches_news_ = false;
  const AliveCheck& alive_;
  const AliveCheck& excluded_;
  const std::function<void()>& meanwhile_;
  base::Pace pace_;
};

}  // namespace

Lock::Lock(const coherence::Memory& memory, void* lines, std::uint32_t participants,
           std::uint32_t self, std::uint64_t token, AliveCheck alive)
    : memory_(memory),
      place_{.lines = static_cast<std::byte*>(lines), .participants = participants, .self = self},
      token_(token),
      alive_(std::move(alive)) {}

namespace {

/// For this process's own token: a process that was stopped may have been passed over, and its line
/// may belong to a successor, whose contents it must not overwrite. So it checks itself before it
/// stores anything that others act upon.
tl::unexpected<Error> taken_for_dead(std::uint64_t token) {
  return fail(ErrorCode::peer_dead, "lock: token {:#x} was declared dead while it waited", token);
}

/// One acquisition.
class Request {
 public:
  Request(const Entries& entries, Queue& queue, base::Waiter& waiter, std::uint64_t token,
          std::uint32_t self, Hold hold, std::uint64_t& last_number, const AliveCheck& alive)
      : entries_(entries),
        queue_(queue),
        waiter_(waiter),
        token_(token),
        self_(self),
        hold_(hold),
        last_number_(last_number),
        alive_(alive) {}

  /// False: the request made way for a sharer and must be made again.
  Result<bool> make() {
    entries_.publish(token_, 0, true);
    std::uint64_t greatest = 0;
    bool idle = true;
    const auto read_number = [&](std::uint32_t, const Line& line, Rival& rival) {
      rival = {.token = line.token};
      greatest = std::max(greatest, line.number);
      idle = idle && line.number == 0 && line.choosing == 0;
      return true;
    };
    queue_.forget();
    queue_.await_all();
    queue_.watch_news(true);
    do {
      if (auto read = queue_.pass_all(waiter_, read_number); !read) return read;
    } while (queue_.await_those_who_joined());
    queue_.watch_news(false);
    if (idle && hold_ == Hold::exclusive) return true;
    if (greatest >= greatest_number)
      return fail(ErrorCode::wrong_format,
                  "lock: number {:#x} in a line is damaged; recreate the pool", greatest);
    // A new number: it tells a participant that made way for this one that this one has left.
    last_number_ = std::max(greatest, last_number_) + 1;
    if (alive_ && !alive_(token_)) return taken_for_dead(token_);
    entries_.publish(token_, last_number_, false, hold_);
    return wait_for(last_number_);
  }

 private:
  Result<bool> wait_for(std::uint64_t number) {
    const auto behind_me = [&](std::uint32_t i, const Line& line, Rival& rival) {
      if (line.choosing == 0) rival.chosen = true;
      rival.number = line.number;
      rival.shared = line.shared != 0 ? line.number : 0;
      if (!rival.chosen) return false;
      if (line.shared != 0 && hold_ == Hold::shared) return true;
      return line.number == 0 || line.number > number || (line.number == number && i > self_);
    };
    queue_.await_all();
    queue_.watch_news(true);
    for (;;) {
      const bool shares = hold_ == Hold::shared;
      auto passed = queue_.pass_all(waiter_, behind_me, shares ? forever : looks_);
      if (!passed) return passed;
      if (*passed && queue_.await_those_who_joined()) continue;
      if (*passed) return passed;
      if (queue_.await_those_who_stay()) return make_way();
    }
  }

  Result<bool> make_way() {
    queue_.watch_news(false);
    looks_ = std::min(2 * looks_, max_first_looks);  // it outgrows any sharer's stay
    if (alive_ && !alive_(token_)) return taken_for_dead(token_);
    entries_.publish(token_, 0, false);
    const auto has_gone = [](std::uint32_t, const Line& line, const Rival& rival) {
      return line.number != rival.shared;
    };
    auto gone = queue_.pass_all(waiter_, has_gone);
    if (gone) return false;
    return gone;
  }

  const Entries& entries_;
  Queue& queue_;
  base::Waiter& waiter_;
  std::uint64_t token_;
  std::uint32_t self_;
  Hold hold_;
  std::uint32_t looks_ = first_looks;
  std::uint64_t& last_number_;  ///< shared by all requests of this Lock
  const AliveCheck& alive_;
};

/// The participant that acquires, and the process that it acts for.
struct Acquirer {
  const Entries& entries;
  std::uint64_t token;
  std::uint32_t self;
  std::uint64_t& last_number;
  const AliveCheck& alive;
  const AliveCheck& excluded;
};

Result<void> acquire_by(const Acquirer& by, std::uint64_t timeout_ns, Hold hold,
                        const std::function<void()>& meanwhile) {
  Queue queue(by.entries, by.alive, by.excluded, meanwhile);
  base::Waiter waiter(
      "lock", timeout_ns,
      [&]() -> Result<void> {
        queue.pass_over_dead();
        return {};
      },
      wait_policy);
  const bool own = by.entries.is_of(by.token);
  if (by.alive && !by.alive(by.token)) return taken_for_dead(by.token);
  if (!own) by.entries.publish(by.token, 0, false);
  Request request(by.entries, queue, waiter, by.token, by.self, hold, by.last_number, by.alive);
  for (;;) {
    const auto made = request.make();
    if (made && *made) break;
    if (made) continue;
    if (by.alive && !by.alive(by.token)) return taken_for_dead(by.token);
    by.entries.publish(by.token, 0, false);
    if (made.error().code != ErrorCode::deadline) return unexpected(made.error());
    return fail(ErrorCode::deadline, "{}: participant {} (token {:#x}) stands in the way",
                made.error().message, queue.first_pending(), queue.token_of(queue.first_pending()));
  }
  // A process that was stopped while it queued may have been passed over: it checks itself.
  if (!by.alive || by.alive(by.token)) return {};
  by.entries.publish(by.token, 0, false);
  return taken_for_dead(by.token);
}

}  // namespace

Result<void> Lock::acquire(std::uint64_t timeout_ns, Hold hold,
                           const std::function<void()>& meanwhile) {
  return acquire_by(
      {Entries(memory_, place_), token_, place_.self, last_number_, alive_, excluded_}, timeout_ns,
      hold, meanwhile);
}

Result<void> OpenLock::acquire(std::uint64_t timeout_ns, Hold hold,
                               const std::function<void()>& meanwhile) {
  const AliveCheck none_excluded;
  return acquire_by(
      {Entries(memory_, lines_, self_), token_, self_, last_number_, alive_, none_excluded},
      timeout_ns, hold, meanwhile);
}

void OpenLock::release() {
  memory_.store_fence();  // publishes under the lock reach the device before the release
  Entries(memory_, lines_, self_).publish(token_, 0, false);
}

void Lock::release() {
  memory_.store_fence();  // publishes under the lock reach the device before the release
  Entries(memory_, place_).publish(token_, 0, false);
}

bool Lock::intact() const {
  Line line;
  memory_.observe_line(&line, place_.lines + 64ull * place_.self);
  return whole(line);
}

void Lock::repair() {
  Entries(memory_, place_).publish(token_, 0, false);
}

}  // namespace penstock::sync
