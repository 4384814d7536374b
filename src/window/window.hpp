// Windows: memory of every rank of a group, in the pool. Each rank puts and gets by itself, in
// epochs that words of the pool delimit. No message is sent. Lines, access counts and crash rules:
// docs/protocols/window.md. Source: cMPI, sections 3.2 and 3.4; MPI 4.1, chapter 12, for
// the semantics of the calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "group/barrier.hpp"
#include "pool/pool.hpp"
#include "sync/sync.hpp"

namespace penstock::window {

/// A rank of the window's group, with the data that it announced when the window was made.
struct Member {
  std::uint64_t token = 0;   ///< pool::Pool::token() of its process
  std::uint64_t offset = 0;  ///< of its segment in the pool; aligned to a line
  std::uint64_t bytes = 0;   ///< size of its segment; 0: it has none
  /// Offset of words_bytes() bytes in the pool that the rank made for this window and cleared by
  /// clear_words(); aligned to a line.
  std::uint64_t words = 0;
  std::uint32_t node = 0;  ///< pool::Pool::node() of its process
};

/// Size of a rank's words in bytes. Through them the ranks of a window find all other words.
std::uint64_t words_bytes();
/// Clears a rank's words. The rank calls it before it announces them.
void clear_words(const coherence::Memory& memory, void* words, std::uint64_t bytes = words_bytes());

/// Assertions by which a program saves work, as in MPI.
enum Assert : std::uint32_t {
  no_check = 1,    ///< the other side is ready, or no other rank requests the lock
  no_store = 2,    ///< the own segment was not stored to since the last epoch
  no_precede = 8,  ///< the fence ends no epoch with accesses
  no_succeed = 16  ///< the fence begins no epoch with accesses
};

/// A byte range of a segment.
struct Extent {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
};

/// Names of the calls below in error messages. An MPI library passes the names of its own calls.
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
  std::vector<Member> members;
  std::uint32_t self = 0;  ///< index in `members`
  bool is_shared = false;  ///< ranks store to each other's segments by plain stores
  /// Called between two looks of a wait, to make progress elsewhere. Other threads may call the
  /// window meanwhile, as if this thread had not entered it yet (base::HandoverMutex).
  std::function<void()> idle;
  /// Allocates memory of this rank in the pool, for words towards other ranks. Returns its offset,
  /// aligned to a line. The memory must stay until all ranks have left. Errors: no_space.
  std::function<Result<std::uint64_t>(std::uint64_t bytes)> more;
  CallNames names{};
  group::BarrierForm fences{};
  /// Called after this rank has sent a request to `target`: the request and this window's bell are
  /// at the device. Lets a process with many windows watch one bell for all of them.
  std::function<void(std::uint32_t target)> on_request = {};
  /// After a rank has made a target cover this many bytes, it returns the ranges that it did not
  /// access meanwhile. Covering this many bytes takes about as long as a request: some
  /// milliseconds.
  std::uint64_t review_bytes = std::uint64_t{256} << 20;
};

/// One rank's side of a window. In modes in which loads may be stale, the calls below must separate
/// a rank's own loads and stores to its segment from other ranks' accesses (MPI's separate memory
/// model); otherwise these are coherent (unified). Errors of all calls that access another rank:
/// peer_dead, with its name; mismatch (no epoch allows the access). A wait ends when an awaited
/// rank dies; every PENSTOCK_TIMEOUT_MS a message on standard error names that rank. One thread at
/// a time may be in a call, except for threads in Options::idle; the caller decides which epochs of
/// several threads belong together. Hot paths (put, get, and epochs among ranks that have arrived):
/// no system call, no lock.
class Window {
 public:
  /// Effectively collective: no rank may continue before all have returned. Errors: wrong_format (a
  /// member's segment is not in the pool).
  static Result<std::unique_ptr<Window>> open(pool::Pool& pool, Options options);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Collective. When it returns, no rank accesses this one's segment any more, and this rank's
  /// caches hold no line of it, so it may be freed. Other ranks may still read this rank's words
  /// until all are known to have returned. No other call may follow.
  Result<void> leave();
  /// Publishes this rank's stores to its segment, and in a shared window to the others' segments:
  /// they are at the device when it returns. Waits for no rank; for a process that exits without
  /// leaving.
  void publish_stores();
  /// Begins to leave; does not wait. A rank that leaves several windows, perhaps in another order
  /// than other ranks, calls it on all of them and then leave(). Peers still put, send requests and
  /// wait for forwarded arrivals until leave() returns, so a rank serves all windows while it waits
  /// in one.
  void begin_leave();

  std::uint32_t ranks() const;
  std::uint32_t self() const;
  std::byte* segment(std::uint32_t rank) const;  ///< address in this process's mapping
  const Member& member(std::uint32_t rank) const;

  // ---- active target ----
  /// Ends the previous fence epoch and begins the next one.
  Result<void> fence(std::uint32_t asserts = 0);
  /// Opens the own segment to `group`. Does not wait.
  Result<void> post(std::span<const std::uint32_t> group, std::uint32_t asserts = 0);
  /// Waits until all of `group` have opened their segments to this rank.
  Result<void> start(std::span<const std::uint32_t> group, std::uint32_t asserts = 0);
  /// Signals the targets; all operations since start() are at the device before the signal.
  Result<void> complete();
  /// Waits until all origins to which the segment is open have completed.
  Result<void> wait();
  /// True: all have completed, and the epoch is over as after wait(). False: not yet. Never waits.
  Result<bool> test();

  // ---- passive target ----
  Result<void> lock(std::uint32_t target, sync::Hold hold, std::uint32_t asserts = 0);
  Result<void> unlock(std::uint32_t target);
  /// Shared locks of all ranks; each is acquired at the first access to the target.
  Result<void> lock_all(std::uint32_t asserts = 0);
  Result<void> unlock_all();
  /// The puts of this rank are at the device when it returns.
  Result<void> flush(std::uint32_t target);
  Result<void> flush_all();
  /// Publishes own stores and observes puts of others.
  Result<void> sync();
  /// For programs that synchronize by other means, mostly messages; covers the ranges that others
  /// access under locks. The own stores there are at the device when it returns.
  void publish_own();
  /// Its counterpart: later loads find the earlier puts of others.
  void observe_own();
  /// Number of bytes that each of these two calls covers.
  std::uint64_t bytes_to_observe() const;

  // ---- communication ----
  /// Copies packed bytes to the extents; writes no other bytes. `from` may be reused on return.
  Result<void> put(std::uint32_t target, std::span<const Extent> extents, const void* from);
  Result<void> get(std::uint32_t target, std::span<const Extent> extents, void* to);
  /// Reads the extents, packed, passes them to `change`, and writes them back if that returns true.
  /// Atomic with respect to other updates of the segment. `change` must not call the window.
  using Change = std::function<bool(std::byte* packed)>;
  Result<void> update(std::uint32_t target, std::span<const Extent> extents, const Change& change);

  /// Orders this thread's publishes before actions of threads that learn of them. Call it before
  /// another thread may enter: at the end of a call, and in Options::idle.
  void store_fence();

  /// True if peers may send requests to this rank in the middle of an epoch and wait for answers.
  /// Its waits answer them, and a thread should call serve() regularly.
  bool may_get_requests() const;
  /// Answers requests of peers; in a window that is being left, also forwards arrivals. True if
  /// there was a request.
  bool serve();

 private:
  struct Impl;
  explicit Window(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::window
