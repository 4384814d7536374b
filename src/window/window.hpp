// Windows: memory of every rank of a group, in the pool, that all of them put into and get from by
// themselves, in epochs that are told apart by words of the pool. No message is sent. Lines, access
// counts and crash rules: docs/protocols/window.md. Source: cMPI sections 3.2 and 3.4;
// memory-model "One-sided: windows"; MPI 4.1 chapter 12 says what the calls mean.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "pool/pool.hpp"
#include "sync/sync.hpp"

namespace penstock::window {

/// A rank of the window's group, as it said when the window was made.
struct Member {
  std::uint64_t token = 0;   ///< pool::Pool::token() of its process
  std::uint64_t offset = 0;  ///< of its segment in the pool; on a line
  std::uint64_t bytes = 0;   ///< of its segment; 0: it has none
};

/// What a program promises in return for less work.
enum Assert : std::uint32_t {
  no_check = 1,    ///< the other side is ready, or no other rank asks for the lock
  no_store = 2,    ///< the own segment was not stored to since the last epoch
  no_precede = 8,  ///< the fence ends no epoch in which anything was done
  no_succeed = 16  ///< the fence begins none
};

/// A run of bytes of a segment.
struct Extent {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
};

/// What error messages call the calls below. An MPI library gives the names that its users know.
struct CallNames {
  const char* fence = "fence";
  const char* post = "post";
  const char* start = "start";
  const char* complete = "complete";
  const char* wait = "wait";
  const char* test = "test";
  const char* lock = "lock";
  const char* unlock = "unlock";
  const char* lock_all = "lock_all";
  const char* unlock_all = "unlock_all";
  const char* flush = "flush";
  const char* flush_all = "flush_all";
  const char* leave = "leave";
};

struct Options {
  std::uint64_t sync_area =
      0;  ///< offset of sync_area_bytes() bytes in the pool, zeroed and published
  std::vector<Member> members;
  std::uint32_t self = 0;      ///< index in `members`
  bool stored_by_all = false;  ///< ranks store to each other's segments by plain stores
  /// Called between two looks of a wait: progress of other things. Other threads may call the
  /// window while it runs, as if this one had not come yet (base::HandoverMutex).
  std::function<void()> idle;
  CallNames names{};
};

/// Words that the ranks of a window synchronize by.
std::uint64_t sync_area_bytes(std::uint32_t ranks);

/// One rank's side of a window. In modes in which loads may be stale a rank's own loads and stores
/// to its segment must be apart from the others' accesses by the calls below (the separate memory
/// model); else they are coherent with them (unified). Errors of all calls that reach another rank:
/// peer_dead, naming it; mismatch: no epoch allows it. Waits end with the death of a rank that they
/// wait for; each time PENSTOCK_TIMEOUT_MS have passed a message on standard error names that rank.
/// One thread at a time may be in a call, but for those that are in Options::idle; the caller knows
/// which epochs of several threads go together. Hot paths (put, get, and epochs among ranks that
/// are there): no system call, no lock.
class Window {
 public:
  /// Collective in effect: no rank may go on before all have returned. Errors: wrong_format (what
  /// the members said does not lie in the pool).
  static Result<std::unique_ptr<Window>> open(pool::Pool& pool, Options options);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Collective: returns when no rank reaches this one's segment any more, and nothing of it stays
  /// in this rank's caches. On rank `root` it returns last: when no rank touches the sync area any
  /// more either. Only then may the space be given back. Nothing else may be called after it.
  Result<void> leave(std::uint32_t root);
  /// What this rank has stored to its memory in the window, or to that of others in a shared one,
  /// is at the device when this returns. Waits for no rank: for a process that ends without
  /// leaving.
  void send_on();
  /// leave() in steps, for a rank that leaves several windows, which others may leave in another
  /// order: the first of all, then the second of all, then leave(). The first does not wait: peers
  /// still put and ask, so they are served until the second returns, which waits until all have
  /// done the first. Then only the root is left to wait, until all have done the second.
  void begin_to_leave();
  Result<void> leave_segments(std::uint32_t root);

  std::uint32_t ranks() const;
  std::uint32_t self() const;
  std::byte* segment(std::uint32_t rank) const;  ///< in this process's mapping
  const Member& member(std::uint32_t rank) const;

  // ---- active target ----
  /// Ends the fence epoch before it and begins the next.
  Result<void> fence(std::uint32_t asserts = 0);
  /// The own segment is open to `group`. Does not wait.
  Result<void> post(std::span<const std::uint32_t> group, std::uint32_t asserts = 0);
  /// Waits until all of `group` have opened their segments to this rank.
  Result<void> start(std::span<const std::uint32_t> group, std::uint32_t asserts = 0);
  /// What was done since start is at the device, and its targets are told.
  Result<void> complete();
  /// Waits until all origins that the segment was opened to have completed.
  Result<void> wait();
  /// As wait(), without waiting: returns whether they have.
  Result<bool> test();

  // ---- passive target ----
  Result<void> lock(std::uint32_t target, sync::Hold hold, std::uint32_t asserts = 0);
  Result<void> unlock(std::uint32_t target);
  /// Shared with all; each target's lock is taken when it is first reached.
  Result<void> lock_all(std::uint32_t asserts = 0);
  Result<void> unlock_all();
  /// What this rank has put is at the device when it returns.
  Result<void> flush(std::uint32_t target);
  Result<void> flush_all();
  /// Own stores are published, and others' puts observed.
  Result<void> sync();
  /// For programs that synchronize by other means, mostly messages; covers what others reach by
  /// locks. What was stored here is at the device when it returns.
  void publish_own();
  /// Loads after it find what others had put before.
  void observe_own();

  // ---- communication ----
  /// Copies packed bytes to the pieces; only these bytes are written. `from` is free on return.
  Result<void> put(std::uint32_t target, std::span<const Extent> extents, const void* from);
  Result<void> get(std::uint32_t target, std::span<const Extent> extents, void* to);
  /// Reads the pieces, packed, gives them to `change`, and writes them when it says so: atomic
  /// towards other updates of the same segment. `change` calls nothing of the window.
  using Change = std::function<bool(std::byte* packed)>;
  Result<void> update(std::uint32_t target, std::span<const Extent> extents, const Change& change);

  /// What this thread has published comes before whatever other threads do once they know of it. To
  /// be called before another thread is let in: at the end of a call, and in Options::idle.
  void store_fence();

  /// Peers may ask something of this rank in the middle of an epoch, and wait for it: it serves
  /// such requests in its waits, and a thread should call serve() now and then.
  bool may_be_asked() const;
  /// Answers what peers ask. True when there was something.
  bool serve();

 private:
  struct Impl;
  explicit Window(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::window
