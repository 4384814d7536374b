// Many simulated nodes and processes in one thread, under a seeded scheduler. Processes are fibers
// that run production code; time is virtual; every operation on the pool is a point at which
// another may run, or at which the running one may be killed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "pool/host_identity.hpp"
#include "sim/memory/core.hpp"
#include "sim/world/fiber.hpp"
#include "sim/world/trace.hpp"
#include "sim/world/turns.hpp"

namespace penstock::sim {

class World;
struct Process;

/// A thread of a simulated process.
struct Thread {
  Process* process = nullptr;
  std::unique_ptr<Fiber> fiber;
  std::unique_ptr<Core> core;
  std::uint32_t number = 0;            ///< number among all threads of the world
  std::uint64_t wakes_ns = 0;          ///< asleep until then
  std::size_t turn = 0;                ///< its place among awake threads
  std::uint64_t lines = 0, waits = 0;  ///< its core's counts, whose time it has spent
  bool ended = false;
};

struct Process {
  std::uint32_t number = 0;
  std::uint32_t node = 0;
  std::uint64_t pid = 0;
  bool dead = false;    ///< killed
  bool ended = false;   ///< its body returned
  int exit_status = 0;  ///< of one that called _exit, which counts as dead
  bool may_exit = false;
  bool stopped = false;  ///< SIGSTOP
  std::uint64_t operations = 0;
  std::uint64_t dies_at = ~0ull;   ///< operation at which it is killed
  std::uint64_t stops_at = ~0ull;  ///< operation at which it is stopped
  bool takes_node_along = false;
  std::uint64_t publishes = 0;
  /// Killed right after this publish, when the line may be on its way in part; with its node or
  /// without.
  std::uint64_t dies_after_publish = 0;
  bool dies_with_node = false;
  std::vector<std::unique_ptr<Thread>> threads;
  std::uint64_t loads = 0;
  /// Stopped when this load has returned: its next steps rely on an old look.
  std::uint64_t stops_after_load = ~0ull;
};

/// The pool's device: one range of addresses, copied on write by a forked child.
class Device {
 public:
  explicit Device(std::uint64_t bytes);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  std::uint64_t bytes_;
};

/// Thrown out of World::run when a required condition is violated.
struct Violation {
  std::string what;
};

class World : public Machine, public coherence::Simulator {
 public:
  World(Device& device, std::uint32_t nodes, const FaultModel& faults, ChoiceSource& choices,
        std::uint64_t seed);
  ~World() override;

  Process& spawn(std::uint32_t node, std::function<void()> body);
  /// Marks the process that crash_everywhere() kills.
  Process& mark_victim(Process& process) {
    victim_ = &process;
    return process;
  }
  Process* victim() { return victim_; }
  /// Runs until every process has ended or is dead. Errors are thrown as Violation: a failed check,
  /// an exception, or more steps than `max_steps` (a process hangs).
  void run(std::uint64_t max_steps = 20'000'000);

  // for bodies
  Process& self();
  void require(bool holds, const std::string& what);
  void yield();
  void sleep(std::uint64_t ns);
  /// Exact to the nanosecond, unlike a program's sleep.
  void sleep_until(std::uint64_t ns);
  void wake(Thread& thread) {
    if (!thread.ended) turns_.wake(thread);
  }
  std::uint64_t now_ns() const { return now_ns_; }
  const FaultModel& faults() const { return faults_; }
  /// Waits until `holds`; checked at each turn.
  void until(const std::function<bool()>& holds);
  coherence::Memory memory() { return {coherence::Mode::simulated, &simulated_ops(), this}; }
  std::byte* base() { return view_of_running().base(); }
  pool::HostIdentity host(std::uint32_t node) const;
  pool::ProcessIdentity identity(const Process& process) const;

  // from outside bodies, or by one process to another
  void kill(Process& process);
  /// Ends all processes of a node and drops the contents of its caches.
  void lose_node(std::uint32_t node);
  /// Evicts the dirty lines that dead processes left in the caches of their nodes. Until then each
  /// line leaves at a moment of its own, whatever owner its memory has by then.
  void evict_left_dirty();
  /// The same for living processes, on every node.
  void evict_all_dirty();
  bool alive(std::uint64_t pid) const;
  /// As the kernel of the running process's node knows it.
  bool runs_here(std::uint64_t pid) const;
  Process* process_of(std::uint64_t pid) const;
  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }

  std::uint64_t steps() const { return steps_; }
  std::uint64_t random() { return environment_.next(); }
  /// Records the events from now on, which takes a fifth of a run's time.
  void start_trace() { trace_.emplace(); }
  /// Empty if none was started.
  const std::optional<Trace>& trace() const { return trace_; }

  // the operating system of simulated processes (os.cpp)
  Thread& running() { return *running_; }
  bool in_fiber() const { return running_ != nullptr; }
  Thread* start_thread(std::function<void()> body);
  bool lock_file(std::uint64_t file);
  void unlock_file(std::uint64_t file);
  void exit_running(int status);

  // Machine, Simulator
  void step(Core& core) override;
  void happened(Core& core, Event event, std::uint64_t line, std::uint64_t word) override;
  Result<coherence::View> view(const coherence::PoolMapping& place) override;
  bool stands_for_all() const override { return true; }

  static World* current();

 private:
  struct Node {
    std::unique_ptr<NodeView> view;
    std::byte* memory = nullptr;
    std::uint64_t memory_bytes = 0;
  };
  struct FileLock {
    std::uint32_t node;
    std::uint64_t file;
    Process* holder;
  };

  void trace(Core& core, Event event, std::uint64_t line, std::uint64_t word);
  NodeView& view_of_running();
  Thread& add_thread(Process& process, std::function<void()> body);
  void switch_away();
  Thread* choose_next();
  void for_touched_lines(std::uint32_t node, const std::function<void(std::uint64_t line)>& visit);
  void evict_one_left_dirty();
  void end(Process& process);
  void count_step();
  void pass_time();
  void spend(std::uint64_t ns);
  std::uint64_t time_of_last();
  void die();
  void fail(const std::string& what);

  Device& device_;
  FaultModel faults_;
  ChoiceSource& choices_;
  RandomChoices environment_;  ///< answers to programs' requests to the system: independent of
                               ///< choices
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Process>> processes_;
  Turns turns_;                        ///< of threads that have not ended, of living processes
  std::size_t unfinished_ = 0;         ///< processes neither ended nor dead
  std::vector<Core*> cores_;           ///< of all threads ever started
  std::deque<std::uint8_t> buffered_;  ///< by core: whether stores wait in it
  std::vector<FileLock> file_locks_;
  struct LeftDirty {
    NodeView* view;
    std::uint64_t line;
  };
  std::vector<LeftDirty> left_dirty_;  ///< by processes that were killed
  Process* victim_ = nullptr;
  Thread* running_ = nullptr;
  Fiber scheduler_;
  std::optional<Trace> trace_;
  std::uint64_t now_ns_ = 1'000'000'000;
  std::uint64_t steps_ = 0, max_steps_ = 0;
  std::uint32_t turn_ = 0;  ///< operations since the last switch
  std::string failure_;
  bool failed_ = false;
};

}  // namespace penstock::sim
