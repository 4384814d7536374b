#include "sim/world/world.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "base/interruptible.hpp"

namespace penstock::sim {

namespace {

World* the_world = nullptr;

constexpr std::uint64_t first_pid = 1'000'000'000;  // greater than any real one
constexpr std::uint64_t look_again_ns = 1'000'000;
constexpr std::uint32_t longest_turn = 64;
constexpr std::uint64_t timer_slack_ns = 60'000;  // Linux's 50 us, and the time to wake up

std::byte* reserve(std::uint64_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  ::madvise(at, bytes, MADV_NOHUGEPAGE);
  return static_cast<std::byte*>(at);
}

Core& core_of_running(void* world) {
  return *static_cast<World*>(world)->running().core;
}

}  // namespace

Device::Device(std::uint64_t bytes) : base_(reserve(bytes)), bytes_(bytes) {}
Device::~Device() {
  ::munmap(base_, bytes_);
}

World* World::current() {
  return the_world;
}

World::World(Device& device, std::uint32_t nodes, const FaultModel& faults, ChoiceSource& choices,
             std::uint64_t seed)
    : device_(device),
      faults_(faults),
      choices_(choices),
      environment_(seed ^ 0x5eed),
      nodes_(nodes) {
  const std::uint64_t bytes = device.bytes();
  for (std::uint32_t number = 0; number < nodes; ++number) {
    Node& node = nodes_[number];
    node.memory_bytes = 2 * bytes + bytes / line_bytes;
    node.memory = reserve(node.memory_bytes);
    node.view = std::make_unique<NodeView>(
        NodeView::Storage{.device = device.base(),
                          .view = node.memory,
                          .shadow = node.memory + bytes,
                          .held = reinterpret_cast<std::uint8_t*>(node.memory + 2 * bytes),
                          .bytes = bytes,
                          .locks = {},
                          .node = number});
  }
  set_current_core(core_of_running);
  the_world = this;
  coherence::use_simulator(this);
}

World::~World() {
  coherence::use_simulator(nullptr);
  the_world = nullptr;
  processes_.clear();
  for (Node& node : nodes_) ::munmap(node.memory, node.memory_bytes);
}

// ---- processes ---------------------------------------------------------------------------------

Process& World::spawn(std::uint32_t node, std::function<void()> body) {
  auto process = std::make_unique<Process>();
  process->number = static_cast<std::uint32_t>(processes_.size());
  process->node = node;
  process->pid = first_pid + process->number;
  Process& spawned = *process;
  ++unfinished_;
  processes_.push_back(std::move(process));
  add_thread(spawned, [this, &spawned, body = std::move(body)] {
    try {
      body();
    } catch (const std::exception& error) {
      fail(fmt::format("process {} on node {}: {}", spawned.number, spawned.node, error.what()));
    }
    // A process that finds it ended finds its stores; but it does not end at once.
    for (int i = 0; i < 20 && running_->core->buffered(); ++i) yield();
    running_->core->drain();
    spawned.ended = true;
    --unfinished_;
  });
  return spawned;
}

Thread& World::add_thread(Process& process, std::function<void()> body) {
  auto thread = std::make_unique<Thread>();
  Thread& added = *thread;
  added.process = &process;
  added.core = std::make_unique<Core>(*nodes_[process.node].view, choices_, faults_, *this);
  added.fiber = std::make_unique<Fiber>([this, &added, body = std::move(body)] {
    body();
    added.ended = true;
    turns_.remove(added);
    for (;;) scheduler_.enter(*added.fiber);
  });
  added.number = static_cast<std::uint32_t>(cores_.size());
  cores_.push_back(added.core.get());
  added.core->show_buffered(&buffered_.emplace_back(0));
  process.threads.push_back(std::move(thread));
  turns_.add(added);
  return added;
}

Thread* World::start_thread(std::function<void()> body) {
  return &add_thread(*running_->process, std::move(body));
}

Process& World::self() {
  return *running_->process;
}

Process* World::process_of(std::uint64_t pid) const {
  if (pid < first_pid || pid - first_pid >= processes_.size()) return nullptr;
  return processes_[pid - first_pid].get();
}

bool World::alive(std::uint64_t pid) const {
  const Process* process = process_of(pid);
  return process != nullptr && !process->dead && !process->ended;
}

bool World::runs_here(std::uint64_t pid) const {
  return alive(pid) && process_of(pid)->node == running_->process->node;
}

void World::kill(Process& process) {
  if (process.dead || process.ended) return;
  end(process);
  NodeView& view = *nodes_[process.node].view;
  for_touched_lines(process.node, [&](std::uint64_t line) {
    if (view.dirty(line)) left_dirty_.push_back({&view, line});
  });
}

void World::end(Process& process) {
  process.dead = true;
  --unfinished_;
  for (auto& thread : process.threads) {
    if (thread->ended) continue;
    thread->core->killed();
    turns_.remove(*thread);
  }
  std::erase_if(file_locks_, [&](const FileLock& lock) { return lock.holder == &process; });
}

/// Most lines of a pool were never touched.
void World::for_touched_lines(std::uint32_t node,
                              const std::function<void(std::uint64_t line)>& visit) {
  const NodeView& view = *nodes_[node].view;
  const std::uint64_t lines_a_page = 4096 / line_bytes;
  std::vector<unsigned char> in_memory((view.lines() + lines_a_page - 1) / lines_a_page);
  if (::mincore(view.base(), view.bytes(), in_memory.data()) != 0) throw std::bad_alloc();
  for (std::uint64_t page = 0; page < in_memory.size(); ++page) {
    if ((in_memory[page] & 1) == 0) continue;
    const std::uint64_t end = std::min((page + 1) * lines_a_page, view.lines());
    for (std::uint64_t line = page * lines_a_page; line < end; ++line) visit(line);
  }
}

void World::evict_one_left_dirty() {
  const std::size_t index = environment_.next() % left_dirty_.size();
  const LeftDirty one = left_dirty_[index];
  left_dirty_[index] = left_dirty_.back();
  left_dirty_.pop_back();
  one.view->drop(one.line);
}

void World::evict_left_dirty() {
  while (!left_dirty_.empty()) evict_one_left_dirty();
}

void World::evict_all_dirty() {
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
    NodeView& view = *nodes_[node].view;
    for_touched_lines(node, [&](std::uint64_t line) {
      if (view.dirty(line)) view.drop(line);
    });
  }
}

void World::lose_node(std::uint32_t node) {
  for (auto& process : processes_) {
    if (process->node != node || process->dead) continue;
    for (auto& thread : process->threads) thread->core->lost();
    if (!process->ended) end(*process);  // its dirty lines go with the node
  }
  NodeView& view = *nodes_[node].view;
  for_touched_lines(node, [&](std::uint64_t line) {
    if (view.held(line) || view.dirty(line)) view.forget_line(line);
  });
}

pool::HostIdentity World::host(std::uint32_t node) const {
  pool::HostIdentity identity;
  identity.boot_id = {0xb0, 0x07};
  identity.machine_id = {0x3a, 0xc4};
  for (pool::Uuid* id : {&identity.boot_id, &identity.machine_id}) {
    (*id)[14] = static_cast<std::uint8_t>(node >> 8);
    (*id)[15] = static_cast<std::uint8_t>(node);
  }
  identity.host = fmt::format("node{}", node);
  return identity;
}

pool::ProcessIdentity World::identity(const Process& process) const {
  pool::ProcessIdentity identity;
  identity.pid = process.pid;
  identity.start_time = 1000 + process.number;
  identity.scope = 1;
  identity.program = fmt::format("process{}", process.number);
  return identity;
}

// ---- scheduling --------------------------------------------------------------------------------

void World::run(std::uint64_t max_steps) {
  max_steps_ = steps_ + max_steps;
  while (!failed_) {
    Thread* next = choose_next();
    if (next == nullptr) break;
    running_ = next;
    turn_ = 0;
    next->fiber->enter(scheduler_);
    running_ = nullptr;
  }
  if (failed_) throw Violation{failure_};
  for (Core* core : cores_) core->drain();
}

/// Chooses any awake thread; when all sleep, time passes until the first wakes.
Thread* World::choose_next() {
  while (unfinished_ != 0 && !failed_) {
    if (Thread* next = turns_.next(now_ns_, choices_)) return next;
    if (turns_.first_wake_ns() == ~0ull) {
      fail("all that are left are stopped, and nobody can let them go on");
      break;
    }
    now_ns_ = turns_.first_wake_ns();
    count_step();
  }
  return nullptr;
}

void World::switch_away() {
  Fiber& mine = *running_->fiber;
  const auto* const check = base::Interruptible::exchange(nullptr);
  scheduler_.enter(mine);
  base::Interruptible::exchange(check);
}

void World::count_step() {
  if (++steps_ > max_steps_) fail(fmt::format("{} steps and no end: somebody hangs", steps_));
}

void World::step(Core& core) {
  if (running_ == nullptr) return;
  count_step();
  if (faults_.device_ns == 0) now_ns_ += faults_.op_ns / 2 + environment_.next() % faults_.op_ns;
  Process& process = *running_->process;
  if (++process.operations == process.dies_at) die();
  if (process.operations == process.stops_at) {
    process.stopped = true;
    switch_away();
  }
  core.background_event();
  pass_time();
  if (faults_.device_ns != 0) return spend(time_of_last());
  if (++turn_ >= longest_turn || choices_.chance(faults_.switching)) switch_away();
}

/// Buffers empty themselves in the background, also those of threads that sleep or have ended.
void World::pass_time() {
  running_->core->pass_time(steps_);
  const std::size_t index = steps_ % cores_.size();
  if (buffered_[index] != 0 && cores_[index] != running_->core.get())
    cores_[index]->pass_time(steps_);
  if (!left_dirty_.empty() && environment_.next() % 1000 < faults_.evict) evict_one_left_dirty();
}

void World::die() {
  Process& process = *running_->process;
  if (process.takes_node_along) {
    lose_node(process.node);
  } else {
    kill(process);
  }
  switch_away();  // for ever
}

void World::exit_running(int status) {
  Process& process = *running_->process;
  if (!process.may_exit) {
    fail(fmt::format("process {} on node {} ends itself, status {}", process.number, process.node,
                     status));
  }
  for (auto& thread : process.threads) thread->core->drain();
  process.exit_status = status;
  kill(process);
  switch_away();  // for ever
}

void World::fail(const std::string& what) {
  if (!failed_) failure_ = what;
  failed_ = true;
  if (running_ != nullptr) switch_away();
}

void World::require(bool holds, const std::string& what) {
  if (!holds) fail(fmt::format("process {} on node {}: {}", self().number, self().node, what));
}

/// The time of the running thread's last operation, if each thread has a core of its own.
std::uint64_t World::time_of_last() {
  Thread& mine = *running_;
  const std::uint64_t lines = mine.core->device_reads() + mine.core->device_writes();
  const std::uint64_t waits = mine.core->device_waits();
  const std::uint64_t ns = faults_.op_ns + (lines - mine.lines) * faults_.line_ns +
                           (waits - mine.waits) * faults_.device_ns;
  mine.lines = lines;
  mine.waits = waits;
  return ns;
}

void World::spend(std::uint64_t ns) {
  turns_.sleep(*running_, now_ns_ + ns);
  switch_away();
}

void World::yield() {
  if (faults_.device_ns != 0) return spend(faults_.yield_ns);
  now_ns_ += faults_.yield_ns;
  count_step();
  pass_time();
  switch_away();
}

void World::sleep(std::uint64_t ns) {
  if (!faults_.hold_unordered) running_->core->drain();  // the kernel is entered
  // Without the kernel's slack, all that began to wait together would look together for ever.
  if (faults_.device_ns != 0) ns += environment_.next() % timer_slack_ns;
  sleep_until(now_ns_ + ns);
}

void World::sleep_until(std::uint64_t ns) {
  turns_.sleep(*running_, ns);
  count_step();
  switch_away();
}

void World::until(const std::function<bool()>& holds) {
  while (!holds()) sleep(look_again_ns);
}

// ---- the processes' view ------------------------------------------------------------------------

NodeView& World::view_of_running() {
  return *nodes_[running_->process->node].view;
}

Result<coherence::View> World::view(const coherence::PoolMapping& place) {
  if (place.bytes > device_.bytes()) {
    return make_error(ErrorCode::no_space, "the simulated device is smaller than the pool");
  }
  return coherence::View{.memory = memory(), .base = base(), .keep = {}};
}

bool World::lock_file(std::uint64_t file) {
  Process& process = self();
  for (const FileLock& lock : file_locks_) {
    if (lock.node == process.node && lock.file == file) return lock.holder == &process;
  }
  file_locks_.push_back({process.node, file, &process});
  return true;
}

void World::unlock_file(std::uint64_t file) {
  Process& process = self();
  std::erase_if(file_locks_,
                [&](const FileLock& lock) { return lock.file == file && lock.holder == &process; });
}

void World::happened(Core& core, Event event, std::uint64_t line, std::uint64_t word) {
  if (trace_) trace(core, event, line, word);
  if (running_ == nullptr) return;
  Process& process = *running_->process;
  if (event == Event::publish && ++process.publishes == process.dies_after_publish) {
    process.dies_at = process.operations + 1;
    process.takes_node_along = process.dies_with_node;
  }
  if (event == Event::load && ++process.loads == process.stops_after_load) {
    process.stopped = true;
    switch_away();
  }
}

void World::trace(Core& core, Event event, std::uint64_t line, std::uint64_t word) {
  Trace::Entry entry{.step = steps_,
                     .node = core.view().node(),
                     .process = running_ != nullptr ? running_->process->number : 0,
                     .event = event,
                     .line = line,
                     .word = word,
                     .held = 0,
                     .dirty = 0};
  if (nodes_.size() <= 8) {
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      const NodeView& view = *nodes_[node].view;
      if (view.held(line)) entry.held |= 1ull << node;
      if (view.dirty(line)) entry.dirty |= 1ull << node;
    }
  }
  trace_->add(entry);
}

}  // namespace penstock::sim
