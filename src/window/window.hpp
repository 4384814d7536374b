// Windows: memory of every rank of a group, in the pool. Each rank puts and gets by itself, in
// epochs that words of the pool delimit. No message is sent. Lines, access
// counts and crash rules: docs/protocols/window.md. Source: cMPI sections 3.2 and 3.4;
// memory-model "One-sided: windows"; MPI 4.1 chapter 12 says what the calls mean.
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

/// A rank of the window's group, as it announced itself when the window was made.
struct Member {
  std::uint64_t token = 0;   ///< pool::Pool::token() of its process
  std::uint64_t offset = 0;  ///< of its segment in the pool; aligned to a line
  std::uint64_t bytes = 0;   ///< size of its segment; 0: it has none
  /// Offset of words_bytes() bytes in the pool that it made for this window, and that clear_words()
  /// has cleared; aligned to a line.
  std::uint64_t words = 0;
  std::uint32_t node = 0;  ///< pool::Pool::node() of its process
};

/// Size of a rank's words, by which the ranks of a window find each other's.
std::uint64_t words_bytes();
/// To be called by the rank whose words these are, before it tells the others of them.
void clear_words(const coherence::Memory& memory, void* words, std::uint64_t bytes = words_bytes());

/// Promises by which a program saves work, as MPI's assertions.
enum Assert : std::uint32_t {
  no_check = 1,    ///< the other side is ready, or no other rank asks for the lock
  no_store = 2,    ///< the own segment was not stored to since the last epoch
  no_precede = 8,  ///< the fence ends no epoch in which anything was done
  no_succeed = 16  ///< the fence begins no such epoch
};

/// A run of bytes of a segment.
struct Extent {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
};

/// Names of the calls below in error messages. An MPI library passes those that its users know.
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
  std::uint32_t self = 0;      ///< index in `members`
  bool stored_by_all = false;  ///< ranks store to each other's segments by plain stores
  /// Called between two looks of a wait, to make progress elsewhere. Other threads may call the
  /// window while it runs, as if this one had not entered yet (base::HandoverMutex).
  std::function<void()> idle;
  /// Makes memory of this rank in the pool, for words towards ranks that it first has to do with:
  /// its offset, aligned to a line. It stays until all ranks have left. Errors: no_space.
  std::function<Result<std::uint64_t>(std::uint64_t bytes)> more;
  CallNames names{};
  group::BarrierForm fences{};
  /// Called when this rank has asked something of `target`: the request and its bell in this window
  /// are at the device. So a process of many windows need not look at the bells of all.
  std::function<void(std::uint32_t target)> told = {};
  /// A rank that has made another go through so many bytes gives back what it did not reach
  /// meanwhile. This many take about as long as an answer to a question may, some milliseconds.
  std::uint64_t review_bytes = std::uint64_t{256} << 20;
};

/// One rank's side of a window. In modes in which loads may be stale, the calls below must separate
/// a rank's own loads and stores to its segment from the others' accesses (the separate memory
/// model); else they are coherent with them (unified). Errors of all calls that reach another rank:
/// peer_dead, naming it; mismatch: no epoch allows it. A wait ends when a rank that it waits for
/// dies; every PENSTOCK_TIMEOUT_MS a message on standard error names that rank. One thread at a
/// time may be in a call, not counting those in Options::idle; the caller decides which epochs of
/// several threads belong together. Hot paths (put, get, and epochs among ranks that have arrived):
/// no system call, no lock.
class Window {
 public:
  /// Collective in effect: no rank may go on before all have returned. Errors: wrong_format (a
  /// member's segment does not lie in the pool).
  static Result<std::unique_ptr<Window>> open(pool::Pool& pool, Options options);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Collective: returns when no rank reaches this one's segment any more, and this rank's caches
  /// hold none of it: its space may be given back. Others may still read this rank's words, until
  /// all are known to have returned from it. Nothing else may be called after it.
  Result<void> leave();
  /// When this returns, the stores of this rank to its segment, and in a shared window to the
  /// others', are at the device. Waits for no rank: for a process that ends without leaving.
  void send_on();
  /// For a rank that leaves several windows, which others may leave in another order: first this on
  /// all of them, then leave(). It does not wait. Peers still put and ask until leave() returns,
  /// and wait for what this rank passes on: so it serves all of them while it waits in one.
  void begin_to_leave();

  std::uint32_t ranks() const;
  std::uint32_t self() const;
  std::byte* segment(std::uint32_t rank) const;  ///< in this process's mapping
  const Member& member(std::uint32_t rank) const;

  // ---- active target ----
  /// Ends the fence epoch before it and begins the next.
  Result<void> fence(std::uint32_t asserts = 0);
  /// Opens the own segment to `group`. Does not wait.
  Result<void> post(std::span<const std::uint32_t> group, std::uint32_t asserts = 0);
  /// Waits until all of `group` have opened their segments to this rank.
  Result<void> start(std::span<const std::uint32_t> group, std::uint32_t asserts = 0);
  /// Signals the targets; all operations since start() are at the device before the signal.
  Result<void> complete();
  /// Waits until all origins that the segment was opened to have completed.
  Result<void> wait();
  /// True: all have completed, and the epoch is over, as after wait(). False: not yet. Never waits.
  Result<bool> test();

  // ---- passive target ----
  Result<void> lock(std::uint32_t target, sync::Hold hold, std::uint32_t asserts = 0);
  Result<void> unlock(std::uint32_t target);
  /// Shared locks of all ranks; each is taken when the target is first reached.
  Result<void> lock_all(std::uint32_t asserts = 0);
  Result<void> unlock_all();
  /// When it returns, the puts of this rank are at the device.
  Result<void> flush(std::uint32_t target);
  Result<void> flush_all();
  /// Publishes own stores and observes others' puts.
  Result<void> sync();
  /// For programs that synchronize by other means, mostly messages; covers the ranges that others
  /// reach by locks. When it returns, own stores there are at the device.
  void publish_own();
  /// Its counterpart: later loads find the earlier puts of others.
  void observe_own();
  /// Bytes that each of the two goes through.
  std::uint64_t bytes_to_observe() const;

  // ---- communication ----
  /// Copies packed bytes to the extents; writes only these bytes. `from` may be reused on return.
  Result<void> put(std::uint32_t target, std::span<const Extent> extents, const void* from);
  Result<void> get(std::uint32_t target, std::span<const Extent> extents, void* to);
  /// Reads the extents, packed, passes them to `change`, and writes them back if that returns true:
  /// atomic towards other updates of the same segment. `change` must not call the window.
  using Change = std::function<bool(std::byte* packed)>;
  Result<void> update(std::uint32_t target, std::span<const Extent> extents, const Change& change);

  /// Orders the publishes of this thread before whatever other threads do after they learn of them.
  /// To be called before another thread is let in: at the end of a call, and in Options::idle.
  void store_fence();

  /// True if peers may send requests to this rank in the middle of an epoch, and wait for answers:
  /// its waits serve them, and a thread should call serve() now and then.
  bool may_be_asked() const;
  /// Answers requests of peers; for a window that is being left, passes on who has left. True if
  /// there was a request.
  bool serve();

 private:
  struct Impl;
  explicit Window(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::window
