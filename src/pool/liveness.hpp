// Is the process behind a token alive?
//
//   same boot id, same file and scope   the kernel knows: the pid exists, started at the same
//                                       time and is no zombie
//   same boot id, another file          it is not attached here: this is a copy of its pool
//   otherwise                           its heartbeat: dead when a lease has passed on our own
//                                       clock without a new beat
//
// In doubt the heartbeat decides. It also decides if /proc shows this process itself otherwise than
// when it attached.
//
// The first look at a foreign heartbeat only starts the clock: a process that looks once never
// takes a process of another host for dead. Nor does one that was stopped itself: its clock runs
// only while it looks. A process that is dead by its heartbeat may go on later: so a verdict is
// published before any caller learns of the death, and the process stays dead from then on.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "base/awake.hpp"
#include "pool/attaching.hpp"
#include "pool/host_identity.hpp"
#include "pool/lease.hpp"
#include "pool/pool_file.hpp"
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

  /// Publishes that a process is taken for dead; what is loaded afterwards is newer than that. An
  /// observer publishes none, and does nothing to the dead.
  using Judge = std::function<void(std::uint64_t token)>;
  void judge_by(Judge judge) { judge_ = std::move(judge); }
  /// This process runs: called at least every beat_period_ns, or dying takes longer to be seen.
  void stay_awake();

  bool alive(std::uint64_t token);
  bool alive(const SlotView& view);
  /// Attached and on this host, by a quick check: one that has just ended, or whose pid has a new
  /// owner, may still count. Cheap.
  bool runs_here(const SlotView& view);
  /// The holder of this host's lock keeps it from acting for its node.
  bool of_this_host(std::uint64_t token) const;
  /// A process of this host that has not ended, whatever its slot says.
  bool still_exists(const SlotView& view) const;
  /// It may be that: the kernel knows such a process. No device access.
  bool may_exist(const SlotView& view) const {
    return is_kernels(view.line.scope, view.line.file) &&
           exists(view.line.pid, view.line.start_time).value_or(false);
  }
  std::uint64_t lease_ns() const { return lease_ns_; }
  /// True if only a heartbeat tells whether this process lives.
  bool judged_by_heartbeat(const SlotView& view) { return witness(view) == Witness::heartbeat; }

 private:
  struct Seen {
    std::uint64_t beat = 0;
    std::uint64_t since_ns = 0;  ///< by clock_
    bool given_up = false;
  };
  /// The beat that its heartbeat shows now; nullopt: its slot or name has a new owner.
  std::optional<std::uint64_t> beat_of(std::uint64_t token) const;
  struct Origin {
    std::uint64_t generation = 0;
    bool this_host = false;
  };
  /// The source that says whether a process lives. `copied`: this pool is a copy of the one that
  /// the process has attached to, so it is not attached here.
  enum class Witness : std::uint8_t { kernel, heartbeat, copied };
  Witness witness(const SlotView& view);
  bool attaching_alive(std::uint64_t token);
  /// True if the numbers of a process of this host mean the same here as there.
  bool is_kernels(std::uint32_t scope, std::uint32_t file) const {
    return scope == self_.scope && same_file(file, self_.pool_file) == SameFile::yes;
  }
  /// nullopt: the kernel does not say.
  std::optional<bool> exists(std::uint64_t pid, std::uint64_t start_time) const;
  std::optional<bool> existed_lately(std::uint64_t pid, std::uint64_t start_time);
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

/// Looks at processes again and again until it is certain: a heartbeat that moved is alive at once,
/// one that did not is dead after a lease. Not thread-safe.
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
