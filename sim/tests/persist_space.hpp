// A pool with objects that transactions change, and their required contents.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "persist/checkpoint.hpp"
#include "persist/reader.hpp"
#include "persist/recovery.hpp"
#include "persist/undo_log.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {

inline constexpr std::uint32_t persist_nodes = 3;
inline constexpr std::uint64_t object_words = 40;  ///< in each of two objects: five lines
inline constexpr std::uint64_t log_bytes = 16 << 10;

template <class T>
T must(World& world, Result<T> result) {
  world.require(result.has_value(), result ? "" : result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Two objects whose words all hold one number between transactions.
class PersistSpace : public SimulatedPool {
 public:
  PersistSpace() : SimulatedPool({.max_processes = 24, .max_nodes = persist_nodes + 3}) {
    once([this](World& world) {
      const auto pool = attach(world);
      const auto arena = open_arena(world, *pool);
      for (const char* name : {"a", "b"})
        must(world,
             arena->create(name, object_words * 8, {.lifetime = arena::Lifetime::persistent}));
      (void)must(world, persist::Checkpoint::create(*arena, "saved", 4096));
    });
  }
};

/// The permitted contents of the two objects, known outside the pool.
struct Numbers {
  std::uint64_t committed = 0;  ///< its commit has returned
  std::uint64_t trying = 0;     ///< the last number that was begun
  bool may_be(std::uint64_t number) const { return number == committed || number == trying; }
};

struct Member {
  Member(World& the_world, const SimulatedPool& simulated)
      : world(the_world),
        pool(simulated.attach(world)),
        arena(SimulatedPool::open_arena(world, *pool)),
        objects{must(world, arena->open("a")), must(world, arena->open("b"))} {}

  /// Stores as a user does, by plain stores, some of which leave the cache by themselves.
  void store(const arena::Object& object, std::uint64_t first, std::uint64_t count,
             std::uint64_t number) {
    auto* words = reinterpret_cast<std::uint64_t*>(object.data) + first;
    for (std::uint64_t i = 0; i < count; ++i) words[i] = number;
    world.yield();
  }
  /// Changes both objects, in pieces; the second before the first is whole.
  void change(persist::UndoLog& log, std::uint64_t number) {
    constexpr std::uint64_t half = object_words / 2;
    const auto& [a, b] = objects;
    must(world, log.add(a, 0, half * 8));
    store(a, 0, half, number);
    must(world, log.add(b, 0, object_words * 8));
    store(b, 0, object_words, number);
    must(world, log.add(a, half * 8, half * 8));
    store(a, half, half, number);
  }
  /// As one transaction after another left the object.
  std::uint64_t read(const arena::Object& object, persist::Reader& reader) {
    std::vector<std::uint64_t> words(object_words);
    must(world, reader.read(words.data(), 0, words.size() * 8));
    for (const std::uint64_t word : words)
      world.require(word == words[0],
                    fmt::format("{} holds parts of {} and of {}", object.name, words[0], word));
    return words[0];
  }
  std::uint64_t read(const arena::Object& object) {
    auto reader = must(world, persist::Reader::open(*arena, object));
    return read(object, reader);
  }
  /// Reads both, while no process changes them.
  std::uint64_t read_both(const char* when) {
    const std::uint64_t number = read(objects[0]);
    const std::uint64_t other = read(objects[1]);
    world.require(number == other, fmt::format("{}: one transaction left {} in one object and {} "
                                               "in the other",
                                               when, number, other));
    return number;
  }
  /// Waits until all transactions of dead processes are undone.
  void recover() {
    wait_until(world, "what the dead began to be undone",
               [&] { return must(world, persist::recover(*arena)).waiting.empty(); });
  }

  World& world;
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;
  arena::Object objects[2];
};

/// Makes transactions with the numbers that follow `from`; some are aborted.
inline void transact(World& world, Member& member, persist::UndoLog& log, Numbers& numbers,
                     std::uint64_t from, int count) {
  for (int i = 1; i <= count; ++i) {
    const std::uint64_t number = from + static_cast<std::uint64_t>(i);
    const bool aborted = world.random() % 4 == 0;
    must(world, log.begin());
    if (!aborted) numbers.trying = number;
    member.change(log, number);
    must(world, aborted ? log.abort() : log.commit());
    if (!aborted) numbers.committed = number;
  }
}

/// Processes come to the node and go, again and again, which flushes its caches.
inline void visit_until(World& world, const PersistSpace& space, const bool& ended) {
  while (!ended) {
    { const Member member(world, space); }
    world.sleep(50'000'000);
  }
}

/// Fetches all lines of all objects, as caches may do at any time.
inline void fetch_everything(Member& member) {
  for (const arena::Object& object : member.arena->list()) {
    std::vector<std::byte> copies(object.bytes);
    member.pool->memory().load_bulk(copies.data(), object.data, copies.size());
  }
}

}  // namespace penstock::sim
