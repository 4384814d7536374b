// A pool for scenarios. Its file is real, small and hardly used: production code opens and locks
// it, but reads and writes of its contents go to the simulated device.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "arena/arena.hpp"
#include "pool/attach_as.hpp"
#include "pool/leftovers.hpp"
#include "pool/pool.hpp"
#include "sim/world/explore.hpp"

namespace penstock::sim {

inline constexpr std::uint64_t an_hour_ns = 3'600'000'000'000;

inline bool gone(const Process& process) {
  return process.dead || process.ended;
}

struct PoolOptions {
  std::uint64_t bytes = device::min_pool_bytes;
  std::uint32_t max_processes = 8;
  std::uint32_t max_nodes = 4;
  /// Silence, in virtual time, after which a process of another node is dead; longer in a world
  /// whose operations take long.
  std::uint32_t lease_ms = 400;
  /// Its file takes memory as objects are made in it.
  bool sparse = false;
};

/// Checks a condition now and then, without a trace in the memory.
inline void wait_until(World& world, const std::string& for_what,
                       const std::function<bool()>& holds) {
  constexpr std::uint64_t pause_ns = 2'000'000;
  for (int looks = 0; !holds(); ++looks) {
    world.require(looks < 100'000, "waited in vain for " + for_what);
    world.sleep(pause_ns);
  }
}

/// The victim dies in the middle of one of its first lines, with its node or without.
inline Scenario dying_in_a_line(Scenario scenario, std::uint64_t first_lines) {
  scenario.name += ", dying in a line";
  scenario.faults.tear = 600;
  scenario.body = [body = scenario.body, first_lines](World& world) {
    body(world);
    world.victim()->dies_after_publish = 1 + world.random() % first_lines;
    world.victim()->dies_with_node = world.random() % 2 == 0;
  };
  return scenario;
}

/// Must outlive the scenarios made from it.
class SimulatedPool {
 public:
  explicit SimulatedPool(const PoolOptions& options = {})
      : path_(device::parse_spec(fmt::format("shm:sim-{}-{:08x}", ::getpid(), ++count()))
                  ->front()
                  .path),
        owner_(::getpid()),
        bytes_(options.bytes),
        lease_ms_(options.lease_ms) {
    if (count() == 1) pool::sweep_leftovers();      // of tests that were killed
    ::setenv("PENSTOCK_TIMEOUT_MS", "3600000", 1);  // a hang shows by the number of steps
    const auto created = pool::create({.spec = path_,
                                       .bytes = options.bytes,
                                       .mode = coherence::Mode::simulated,
                                       .max_processes = options.max_processes,
                                       .max_nodes = options.max_nodes,
                                       .sparse = options.sparse});
    if (!created) throw std::runtime_error(created.error().message);
    claim_ = pool::claim_own_pool(path_);
    Device device(bytes_);
    std::ifstream(path_, std::ios::binary)
        .read(reinterpret_cast<char*>(device.base()),
              static_cast<std::streamsize>(created->arena_offset));
    keep(device);
  }
  ~SimulatedPool() {
    if (owner_ == ::getpid()) ::unlink(path_.c_str());
  }
  SimulatedPool(const SimulatedPool&) = delete;
  SimulatedPool& operator=(const SimulatedPool&) = delete;

  const std::string& path() const { return path_; }

  /// With this pool on its device; the caller sets `body`.
  Scenario scenario(std::string name, std::uint32_t nodes) const {
    Scenario scenario;
    scenario.name = std::move(name);
    scenario.nodes = nodes;
    scenario.device_bytes = bytes_;
    scenario.prepare = [this](std::byte* device) { restore(device); };
    return scenario;
  }

  /// Runs `body` once as a process on node 0. Later scenarios begin with the pool in the state in
  /// which this leaves it.
  void once(const std::function<void(World&)>& body) {
    Device device(bytes_);
    restore(device.base());
    {
      FaultModel faults;
      RandomChoices choices(1);
      World world(device, 1, faults, choices, 1);
      world.spawn(0, [&] { body(world); });
      try {
        world.run();
      } catch (const Violation& violation) {
        throw std::runtime_error(violation.what);
      }
    }
    keep(device);
  }
  /// Makes an empty arena; no process stays attached.
  void format_arena() {
    once([this](World& world) {
      const auto pool = attach(world);
      open_arena(world, *pool);
    });
  }

  /// Attaches the running process, with the identity that its node and number give it.
  std::unique_ptr<pool::Pool> attach(World& world, pool::AttachOptions options = {}) const {
    return attach(world, {world.host(world.self().node), world.identity(world.self())},
                  std::move(options));
  }
  std::unique_ptr<pool::Pool> attach(World& world, const pool::Caller& caller,
                                     pool::AttachOptions options = {}) const {
    options.spec = path_;
    ::setenv("PENSTOCK_LEASE_MS", std::to_string(lease_ns(world) / 1'000'000).c_str(), 1);
    auto attached = pool::attach_as(options, caller);
    world.require(attached.has_value(), attached ? "" : attached.error().message);
    return std::move(*attached);
  }
  /// The lease: no process is silent for that many operations of all processes together.
  std::uint64_t lease_ns(const World& world) const {
    constexpr std::uint64_t operations = 20'000;
    return std::max(lease_ms_ * std::uint64_t{1'000'000}, operations * world.faults().op_ns);
  }
  /// A process comes to each node and goes, which ends quarantines that wait for its caches.
  void visit_nodes(World& world, std::uint32_t nodes) const {
    for (std::uint32_t node = 0; node < nodes; ++node) {
      auto done = std::make_shared<bool>(false);
      world.spawn(node, [this, &world, done] {
        {
          const auto attached = attach(world);
          const auto arena = open_arena(world, *attached);
        }
        *done = true;
      });
      wait_until(world, "a node to flush", [&] { return *done; });
    }
  }
  static std::unique_ptr<arena::Arena> open_arena(World& world, pool::Pool& pool) {
    auto opened = arena::Arena::open(pool);
    world.require(opened.has_value(), opened ? "" : opened.error().message);
    return std::move(*opened);
  }

 private:
  using Page = std::array<std::byte, 4096>;
  struct KeptPage {
    std::uint64_t offset;
    Page bytes;
  };

  static int& count() {
    static int pools = 0;
    return pools;
  }
  void keep(const Device& device) {
    static const Page nothing{};
    pages_.clear();
    std::vector<unsigned char> in_memory((bytes_ + sizeof(Page) - 1) / sizeof(Page));
    if (::mincore(device.base(), bytes_, in_memory.data()) != 0)
      throw std::runtime_error("mincore failed");
    for (std::uint64_t at = 0; at < bytes_; at += sizeof(Page)) {
      if ((in_memory[at / sizeof(Page)] & 1) == 0) continue;
      if (std::memcmp(device.base() + at, &nothing, sizeof(Page)) == 0) continue;
      pages_.push_back({at, {}});
      std::memcpy(&pages_.back().bytes, device.base() + at, sizeof(Page));
    }
  }
  void restore(std::byte* device) const {
    for (const KeptPage& page : pages_)
      std::memcpy(device + page.offset, &page.bytes, sizeof(Page));
  }

  std::string path_;
  base::UniqueFd claim_;
  pid_t owner_;
  std::uint64_t bytes_;
  std::uint32_t lease_ms_;
  std::vector<KeptPage> pages_;
};

}  // namespace penstock::sim
