// Decides whether the process of a token is alive.
//
// clang-format off
//   same boot id, file and scope    ask the kernel: the pid exists, started at the same time, and
//                                   is no zombie
//   same boot id, another file      dead here: this pool is a copy of the one it is attached to
//   otherwise                       by its heartbeat: dead if a lease has passed on our own clock
//                                   without a new beat
// clang-format on
//
// In doubt the heartbeat decides. It also decides if /proc shows this process itself differently
// than when it attached.
//
// The first look at a foreign heartbeat only starts the clock, so a single look never declares a
// process of another host dead. Nor does a process that was stopped itself: its clock runs only
// while it looks. A process that is dead by its heartbeat may resume later. So a verdict is
// published before any caller learns of the death, and the process stays dead from then on.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "base/awake.hpp"
#include "device/pool_file.hpp"
#include "pool/attaching.hpp"
#include "pool/host_identity.hpp"
#include "pool/lease.hpp"
#include "pool/process_table.hpp"

namespace penstock::pool {

/// Thread-safe.
class Liveness {
 public:
  Liveness(const ProcessTable& processes, const AttachingTable& attaching, const HostIdentity& host,
           const ProcessIdentity& self, std::uint64_t lease_ns)
      : processes_(processes),
        attaching_(attaching),
        host_(host),
        self_(self),
        lease_ns_(lease_ns),
        clock_(longest_step_ns(lease_ns)) {}

  /// Publishes a verdict that declares a process dead; later loads are newer than the verdict. An
  /// observer has no judge, and takes no action on dead processes.
  using Judge = std::function<void(std::uint64_t token)>;
  void judge_by(Judge judge) { judge_ = std::move(judge); }
  /// Call it at least every beat_period_ns: otherwise deaths are noticed later.
  void stay_awake();

  bool alive(std::uint64_t token);
  bool alive(const SlotView& view);
  /// True if attached and on this host, by a cheap check. May be true for a process that has just
  /// ended or whose pid has a new owner.
  bool runs_here(const SlotView& view);
  /// True for a process of this host: the holder of the host's lock keeps it from acting for its
  /// node.
  bool of_this_host(std::uint64_t token) const;
  /// True if it is a process of this host that has not ended, whatever its slot says.
  bool still_exists(const SlotView& view) const;
  /// True if that is possible: the kernel knows such a process. No device access.
  bool may_exist(const SlotView& view) const {
    return in_same_scope(view.line.scope, view.line.file) &&
           exists(view.line.pid, view.line.start_time).value_or(false);
  }
  std::uint64_t lease_ns() const { return lease_ns_; }
  /// True if only the heartbeat shows whether this process lives.
  bool judged_by_heartbeat(const SlotView& view) { return witness(view) == Witness::heartbeat; }

 private:
  struct Seen {
    std::uint64_t beat = 0;
    std::uint64_t since_ns = 0;  ///< by clock_
    bool declared_dead = false;
  };
  /// The current beat of its heartbeat; nullopt: its slot or name has a new owner.
  std::optional<std::uint64_t> beat_of(std::uint64_t token) const;
  struct Origin {
    std::uint64_t generation = 0;
    bool this_host = false;
  };
  /// The source that shows whether a process lives. `copied`: this pool is a copy of the one that
  /// the process is attached to, so it is not attached here.
  enum class Witness : std::uint8_t { kernel, heartbeat, copied };
  Witness witness(const SlotView& view);
  bool attaching_alive(std::uint64_t token);
  /// True if pids of that process have the same meaning here.
  bool in_same_scope(std::uint32_t scope, std::uint32_t file) const {
    return scope == self_.scope &&
           device::same_file(file, self_.pool_file) == device::SameFile::yes;
  }
  /// nullopt: the kernel does not know.
  std::optional<bool> exists(std::uint64_t pid, std::uint64_t start_time) const;
  std::optional<bool> exists_cached(std::uint64_t pid, std::uint64_t start_time);
  std::optional<bool> is_here(const SlotView& view);
  bool beats(std::uint64_t token, std::uint64_t beat);

  ProcessTable processes_;
  AttachingTable attaching_;
  HostIdentity host_;
  ProcessIdentity self_;
  std::uint64_t lease_ns_;
  std::mutex mutex_;
  base::AwakeClock clock_;
  std::map<std::uint64_t, Seen> seen_;       // by token
  std::map<std::uint32_t, Origin> origins_;  // by slot
  struct Reading {
    std::uint64_t start_time = 0, at_ns = 0;
  };
  std::map<std::uint64_t, Reading> readings_;  // of /proc, by pid
  Judge judge_;
};

/// Watches processes until their state is certain: a moving heartbeat proves life at once, one that
/// stays the same for a lease proves death. Not thread-safe.
class LifeWatch {
 public:
  enum class Verdict { alive, dead, undecided };
  LifeWatch(const ProcessTable& processes, Liveness& liveness)
      : processes_(processes), liveness_(liveness) {}
  Verdict look(const SlotView& view);

 private:
  const ProcessTable& processes_;
  Liveness& liveness_;
  std::map<std::uint64_t, std::uint64_t> first_beats_;  // by token
};

}  // namespace penstock::pool
