// A whole job of many ranks on many nodes: each attaches, opens an endpoint, talks to its
// neighbours, meets all others in a barrier, puts through a window, waits, and leaves; or a node is
// lost and every survivor is told. Counts the device accesses of each phase.
#pragma once

#include <sys/resource.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "coll/communicator.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "transport/transport.hpp"
#include "window/window.hpp"

namespace penstock::sim {

enum class Phase : std::uint8_t {
  attach,    ///< to the pool, and to its arena
  endpoint,  ///< opened
  messages,  ///< two to each neighbour, one of them longer than a line
  join,      ///< a communicator opened
  barrier,   ///< of all ranks
  window,    ///< a window is opened
  fence,     ///< the second of two fences: puts to a neighbour end
  idle,      ///< polls of an endpoint to which no rank sends
  leave,     ///< leaving all of it
  end
};
inline const char* phase_name(Phase phase) {
  constexpr const char* names[] = {"attach", "endpoint", "messages", "join", "barrier",
                                   "window", "fence",    "idle",     "leave"};
  return names[static_cast<std::size_t>(phase)];
}

/// Lines read from the device and written to it, serialized accesses and time: of the rank with
/// most, and of all ranks.
struct PhaseCounts {
  std::uint64_t peak_reads = 0, peak_writes = 0, reads = 0, writes = 0;  ///< by all threads of a
                                                                         ///< rank
  std::uint64_t peak_waits = 0, waits = 0;  ///< serialized accesses of the rank's own thread
  std::uint64_t peak_ns = 0;                ///< without waits for the launcher
};

struct LargeJob {
  std::uint32_t ranks = 64, nodes = 4;  ///< each node has the same number
  std::string name = "job";
  bool barriers = true;
  std::uint32_t windows = 1;          ///< open at once
  std::uint32_t lost_node = ~0u;      ///< is lost when all have met
  std::uint64_t idle_ns = 2'000'000;  ///< virtual time

  // facts that a launcher passes between ranks
  std::vector<transport::Address> addresses = std::vector<transport::Address>(ranks);
  std::vector<std::uint64_t> tokens = std::vector<std::uint64_t>(ranks);
  std::uint64_t communicator = 0;
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(windows), segments = words;
  std::vector<std::uint32_t> pool_nodes = std::vector<std::uint32_t>(ranks);
  struct Meeting {
    std::uint32_t arrived = 0;
    std::uint64_t over_ns = 0;
  };
  std::vector<Meeting> meetings = std::vector<Meeting>(10);
  std::uint32_t in_barrier = 0, notified = 0, left = 0;
  std::uint32_t detached = 0;    ///< of those that left: none of their accesses are counted any
                                 ///< more
  std::uint64_t bytes_used = 0;  ///< of the pool, when everything is open

  PhaseCounts counts[static_cast<std::size_t>(Phase::end)];

  std::uint32_t ranks_a_node() const { return ranks / nodes; }
  std::uint32_t node_of(std::uint32_t rank) const { return rank / ranks_a_node(); }
  bool is_lost(std::uint32_t rank) const { return node_of(rank) == lost_node; }
  std::uint32_t survivors() const { return ranks - (lost_node == ~0u ? 0 : ranks_a_node()); }
  bool is_over() const { return left == survivors(); }
  bool is_counted() const { return detached == survivors(); }
};

/// A rank; node 0 has the first ones, as a launcher deals them out.
class LargeJobRank final : public transport::EndpointCallbacks {
 public:
  static constexpr std::uint64_t segment_bytes = 64;
  static constexpr std::uint64_t long_bytes = 3000;

  LargeJobRank(World& world, const SimulatedPool& simulated, LargeJob& job, std::uint32_t self)
      : world_(world), simulated_(simulated), job_(job), self_(self) {}

  void go() {
    counted(Phase::attach, [&] { attach(); });
    counted(Phase::endpoint, [&] { open_endpoint(); });
    meet(0);
    if (job_.ranks > 1) counted(Phase::messages, [&] { talk(); });
    meet(1);
    if (job_.barriers) barrier();
    if (job_.windows != 0) open_windows();
    if (job_.windows != 0) fences();
    if (self_ == 0) job_.bytes_used = arena_->stats().bytes_used;
    counted(Phase::idle, [&] { idle(); });
    meet(2);
    if (job_.lost_node != ~0u) see_a_node_go();
    counted(Phase::leave, [&] { leave(); });
    ++job_.detached;
  }

  transport::ReceiveBuffer on_message(const transport::Message& incoming) override {
    if (incoming.payload != nullptr) {
      check(incoming.header, static_cast<const std::byte*>(incoming.payload));
      return {};
    }
    arriving_.push_back(std::make_unique<Arriving>(*this, incoming.header));
    Arriving& one = *arriving_.back();
    return {.iov = &one.iov, .iov_count = 1, .arrival = &one};
  }
  void on_sent(transport::SendOp*) override { --pending_; }
  void on_send_failed(transport::SendOp*, const Error& error) override {
    world_.require(job_.lost_node != ~0u, error.message);
    --pending_;
  }
  void on_peer_dead(transport::Peer, const std::string& description) override {
    require_lost(description);
  }

 private:
  struct Arriving final : transport::Arrival {
    Arriving(LargeJobRank& the_rank, const transport::Header& the_header)
        : rank(the_rank), header(the_header), bytes(the_header.bytes) {
      iov = {bytes.data(), bytes.size()};
    }
    void arrived() override { rank.check(header, bytes.data()); }
    void failed(const Error& error) override {
      rank.world_.require(rank.job_.lost_node != ~0u, error.message);
    }
    LargeJobRank& rank;
    transport::Header header;
    std::vector<std::byte> bytes;
    iovec iov{};
  };

  void must(const Result<void>& result) {
    world_.require(result.has_value(), result ? "" : result.error().message);
  }

  /// Adds the device accesses of all threads of this process during `work`.
  void counted(Phase phase, const std::function<void()>& work) {
    const auto [reads_before, writes_before] = accesses();
    const std::uint64_t waits_before = world_.running().core->device_waits();
    const std::uint64_t begin_ns = world_.now_ns() - met_ns_;
    work();
    const auto [reads, writes] = accesses();
    const std::uint64_t waits = world_.running().core->device_waits() - waits_before;
    PhaseCounts& counts = job_.counts[static_cast<std::size_t>(phase)];
    counts.reads += reads - reads_before;
    counts.writes += writes - writes_before;
    counts.waits += waits;
    counts.peak_waits = std::max(counts.peak_waits, waits);
    counts.peak_ns = std::max(counts.peak_ns, world_.now_ns() - met_ns_ - begin_ns);
    counts.peak_reads = std::max(counts.peak_reads, reads - reads_before);
    counts.peak_writes = std::max(counts.peak_writes, writes - writes_before);
  }
  std::pair<std::uint64_t, std::uint64_t> accesses() {
    std::pair<std::uint64_t, std::uint64_t> sum{};
    for (const auto& thread : world_.self().threads) {
      sum.first += thread->core->device_reads();
      sum.second += thread->core->device_writes();
    }
    return sum;
  }
  /// Many ranks that look often would cost more than all else.
  std::uint64_t pause_ns() const { return 2'000'000 + job_.ranks * std::uint64_t{20'000}; }
  /// By means outside the pool.
  void wait_for(const char* what, const std::function<bool()>& holds) {
    const std::uint64_t begin_ns = world_.now_ns();
    for (int looks = 0; !holds(); ++looks) {
      world_.require(looks < 1'000'000, fmt::format("waited in vain for {}", what));
      world_.sleep(pause_ns());
    }
    met_ns_ += world_.now_ns() - begin_ns;
  }
  /// All go on from there at the same time.
  void meet(std::size_t place) {
    LargeJob::Meeting& meeting = job_.meetings[place];
    if (++meeting.arrived == job_.ranks) meeting.over_ns = world_.now_ns() + 2 * pause_ns();
    wait_for("all ranks", [&] { return meeting.arrived == job_.ranks; });
    const std::uint64_t now_ns = world_.now_ns();
    if (now_ns < meeting.over_ns) world_.sleep_until(meeting.over_ns);
    met_ns_ += world_.now_ns() - now_ns;
  }

  void attach() {
    pool_ = simulated_.attach(world_, {.rank = static_cast<std::int32_t>(self_), .job = job_.name});
    arena_ = SimulatedPool::open_arena(world_, *pool_);
    job_.tokens[self_] = pool_->token();
    job_.pool_nodes[self_] = pool_->node();
  }
  void open_endpoint() {
    auto opened = transport::Endpoint::open(*arena_, *this, {.job = job_.name});
    world_.require(opened.has_value(), opened ? "" : opened.error().message);
    endpoint_ = std::move(*opened);
    job_.addresses[self_] = endpoint_->address();
  }

  // ---- messages ----

  std::uint32_t neighbour(std::uint32_t distance) const { return (self_ + distance) % job_.ranks; }
  static std::byte content(std::uint32_t from, std::uint64_t at) {
    return static_cast<std::byte>(from * 7 + at * 13 + at / 64);
  }
  void talk() {
    std::vector<std::byte> payload(long_bytes);
    for (std::uint64_t i = 0; i < long_bytes; ++i) payload[i] = content(self_, i);
    std::vector<transport::SendOp> ops(4);
    std::size_t number = 0;
    for (const std::uint32_t to : {neighbour(1), neighbour(job_.ranks - 1)}) {
      const auto peer = endpoint_->resolve(job_.addresses[to]);
      world_.require(peer.has_value(), peer ? "" : peer.error().message);
      for (const std::uint64_t bytes : {std::uint64_t{8}, long_bytes}) {
        transport::SendOp& op = ops[number++];
        op.header = {bytes, self_, bytes, 1};
        op.iov[0] = {payload.data(), bytes};
        op.iov_count = 1;
        const auto sent = endpoint_->send(*peer, &op);
        world_.require(sent.has_value(), sent ? "" : sent.error().message);
        if (!*sent) ++pending_;
      }
    }
    for (int looks = 0; pending_ != 0 || received_ != 4; ++looks) {
      world_.require(looks < 1'000'000, "waited in vain for messages of the neighbours");
      if (endpoint_->progress() == 0) world_.sleep(std::min(20'000 * (1 + looks / 16), 1'000'000));
    }
    arriving_.clear();
  }
  void check(const transport::Header& header, const std::byte* payload) {
    const auto from = static_cast<std::uint32_t>(header.data);
    world_.require(from == neighbour(1) || from == neighbour(job_.ranks - 1), "from no neighbour");
    for (std::uint64_t i = 0; i < header.bytes; ++i)
      if (payload[i] != content(from, i)) world_.require(false, "wrong contents");
    ++received_;
  }
  /// While no rank sends.
  void idle() {
    constexpr std::uint64_t apart_ns = 20'000;
    const std::uint64_t until = world_.now_ns() + job_.idle_ns;
    while (world_.now_ns() < until) {
      endpoint_->progress();
      world_.sleep(apart_ns);
    }
  }

  // ---- all ranks together ----

  /// Rank 0 makes an object for all; zeroed, or with old contents.
  arena::Object make(std::string_view name, std::uint64_t bytes, bool zero = true) {
    auto object = arena_->create(fmt::format("{} {}", job_.name, name), bytes, {.zero = zero});
    world_.require(object.has_value(), object ? "" : object.error().message);
    return made_.emplace_back(*object);
  }
  void make_communicator() {
    const auto object =
        make("communicator", coll::Communicator::bytes(job_.ranks, small_shape), false);
    const std::vector<std::byte> zeros(coll::Communicator::zeroed_bytes(job_.ranks, small_shape));
    pool_->memory().publish_bulk(object.data, zeros.data(), zeros.size());
    pool_->memory().full_fence();
    job_.communicator = object.offset;
  }
  void barrier() {
    counted(Phase::join, [&] {
      if (self_ == 0) make_communicator();
      meet(3);
      std::vector<std::uint64_t> nodes(job_.pool_nodes.begin(), job_.pool_nodes.end());
      auto opened = coll::Communicator::open(*pool_, {.area = job_.communicator,
                                                      .tokens = job_.tokens,
                                                      .self = self_,
                                                      .nodes = std::move(nodes),
                                                      .shape = small_shape});
      world_.require(opened.has_value(), opened ? "" : opened.error().message);
      communicator_ = std::move(*opened);
    });
    meet(4);
    counted(Phase::barrier, [&] {
      ++job_.in_barrier;
      const coll::Problem problem{
          .collective = coll::Collective::barrier, .ranks = job_.ranks, .rank = self_};
      must(communicator_->run(
          {.name = "barrier", .problem = &problem, .plan = communicator_->plan(problem)}));
      world_.require(job_.in_barrier == job_.ranks,
                     "a rank passed the barrier before all had arrived");
    });
  }

  /// A rank clears its own words, as the plug-in of an MPI does.
  void open_windows() {
    counted(Phase::window, [&] {
      for (std::uint32_t window = 0; self_ == 0 && window < job_.windows; ++window) {
        const std::uint64_t bytes = job_.ranks * window::words_bytes();
        job_.words[window] = make(fmt::format("window {}", window), bytes, false).offset;
        job_.segments[window] =
            make(fmt::format("segments {}", window), job_.ranks * segment_bytes).offset;
      }
      meet(5);
      for (std::uint32_t window = 0; window < job_.windows; ++window)
        window::clear_words(pool_->memory(), pool_->base() + words_of(window, self_));
      meet(6);
      for (std::uint32_t window = 0; window < job_.windows; ++window) open_window(window);
      meet(9);
    });
  }
  void open_window(std::uint32_t window) {
    window::Options options;
    for (std::uint32_t rank = 0; rank < job_.ranks; ++rank)
      options.members.push_back({.token = job_.tokens[rank],
                                 .offset = job_.segments[window] + rank * segment_bytes,
                                 .bytes = segment_bytes,
                                 .words = words_of(window, rank),
                                 .node = job_.pool_nodes[rank]});
    options.self = self_;
    options.more = [this](std::uint64_t bytes) -> Result<std::uint64_t> {
      const auto name = fmt::format("{} words {}.{}", job_.name, self_, made_.size());
      made_.push_back(
          PENSTOCK_TRY(arena_->create(name, bytes, {.lifetime = arena::Lifetime::process})));
      return made_.back().offset;
    };
    auto opened = window::Window::open(*pool_, std::move(options));
    world_.require(opened.has_value(), opened ? "" : opened.error().message);
    windows_.push_back(std::move(*opened));
  }
  std::uint64_t words_of(std::uint32_t window, std::uint32_t rank) const {
    return job_.words[window] + rank * window::words_bytes();
  }
  /// The first fence opens an epoch, the second ends it.
  void fences() {
    window::Window& window = *windows_.back();
    must(window.fence(window::no_precede));
    meet(7);
    const std::uint64_t value = 1000 + self_;
    const window::Extent cell{0, 8};
    must(window.put(neighbour(1), {&cell, 1}, &value));
    counted(Phase::fence, [&] { must(window.fence(0)); });
    const std::uint64_t found = pool_->memory().load_word(window.segment(self_));
    world_.require(found == 1000 + neighbour(job_.ranks - 1), "a put was not found");
    meet(8);
  }

  // ---- the end ----

  /// All get an error that names a rank of that node, or one that has left because of it.
  void require_lost(const std::string& text) {
    if (text.ends_with(" left")) return;
    for (std::uint32_t rank = 0; rank < job_.ranks; ++rank) {
      if (job_.is_lost(rank) && text.find(fmt::format("rank {} (pid", rank)) != std::string::npos)
        return;
    }
    world_.require(false, "told of another: " + text);
  }
  void see_a_node_go() {
    if (job_.is_lost(self_)) world_.sleep(~0ull / 4);  // for ever
    if (self_ == 0) world_.lose_node(job_.lost_node);
    const auto end = windows_.back()->fence(0);
    world_.require(!end && end.error().code == ErrorCode::peer_dead,
                   "a fence with dead ranks succeeded");
    require_lost(end.error().message);
    ++job_.notified;
    wait_for("all survivors", [&] { return job_.notified == job_.survivors(); });
  }
  void leave() {
    for (const auto& window : windows_)
      if (job_.lost_node == ~0u) must(window->leave());
    windows_.clear();
    if (communicator_) communicator_->leave();
    communicator_.reset();
    endpoint_.reset();
    ++job_.left;
    if (!made_.empty()) wait_for("all to leave", [&] { return job_.is_over(); });
    for (const auto& object : made_) must(arena_->destroy(object));
    arena_.reset();
    pool_.reset();
  }

  World& world_;
  const SimulatedPool& simulated_;
  LargeJob& job_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::unique_ptr<coll::Communicator> communicator_;
  std::vector<std::unique_ptr<window::Window>> windows_;
  std::vector<arena::Object> made_;
  std::vector<std::unique_ptr<Arriving>> arriving_;
  std::uint32_t pending_ = 0, received_ = 0;
  std::uint64_t met_ns_ = 0;  ///< time in which it waited for others by means outside the pool
};

/// Prints a line for each phase: lines that all ranks read and wrote, and the greatest numbers of
/// one rank.
inline void print_counts(const LargeJob& job) {
  for (int phase = 0; phase < static_cast<int>(Phase::end); ++phase) {
    const PhaseCounts& counts = job.counts[phase];
    fmt::print("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", phase_name(static_cast<Phase>(phase)),
               counts.reads, counts.writes, counts.peak_reads, counts.peak_writes, counts.waits,
               counts.peak_waits, counts.peak_ns);
  }
  fmt::print("pool\t{}\n", job.bytes_used);
  std::fflush(stdout);
}

/// All processes of a job open their files in this process. Returns false if it may not open so
/// many.
inline bool open_files_for(std::uint32_t ranks) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur >= 4ull * ranks + 100;
}

/// Room for jobs of `ranks` ranks, with windows.
inline PoolOptions pool_for(std::uint32_t ranks, std::uint32_t windows = 1) {
  const std::uint64_t n = ranks;
  constexpr std::uint64_t unit = 2 << 20;
  const std::uint64_t bytes = (std::uint64_t{64} << 20) + n * (std::uint64_t{640} << 10) +
                              windows * n * (std::uint64_t{1} << 10);
  return {.bytes = (bytes + unit - 1) / unit * unit,
          .max_processes = 2 * ranks + 64,
          .max_nodes = 128,
          .lease_ms = 2000,
          .sparse = true};
}

inline void spawn_job(World& world, const SimulatedPool& pool, const std::shared_ptr<LargeJob>& job,
                      const std::function<bool()>& may_begin = {}) {
  for (std::uint32_t rank = 0; rank < job->ranks; ++rank) {
    world.spawn(job->node_of(rank), [&world, &pool, job, rank, may_begin] {
      if (may_begin) world.until(may_begin);
      LargeJobRank(world, pool, *job, rank).go();
    });
  }
}

/// Makes the table of endpoints, which stays.
inline void prepare_endpoints(SimulatedPool& pool) {
  pool.once([&](World& world) {
    LargeJob one{.ranks = 1, .nodes = 1, .name = "first", .barriers = false, .windows = 0};
    LargeJobRank(world, pool, one, 0).go();
  });
}

/// Turns off random events that cost accesses.
inline FaultModel quiet_faults(FaultModel faults) {
  faults.evict = faults.prefetch = faults.tear = faults.stored = 0;
  faults.lazy_store_fence = false;
  return faults;
}

/// Leaves the body of the scenario to the caller.
inline Scenario large_scenario(const SimulatedPool& pool, const std::string& name,
                               std::uint32_t ranks, std::uint32_t nodes) {
  Scenario scenario =
      pool.scenario(fmt::format("{}, {} ranks on {} nodes", name, ranks, nodes), nodes);
  scenario.max_steps = 40'000'000'000;
  scenario.max_seconds = std::max(1200u, ranks);
  scenario.swarm = false;
  scenario.faults.switching = 20;
  // Each rank has a core, and the pool is a CXL device behind a switch.
  scenario.faults.op_ns = 10;
  scenario.faults.device_ns = 400;
  scenario.faults.line_ns = 20;
  scenario.faults.yield_ns = 500;
  return scenario;
}

}  // namespace penstock::sim
