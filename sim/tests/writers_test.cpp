// The table of writers on memory without coherence: a process that looks for the dead, or for the
// writer of an object, holds old copies of it; an erased line leaves no trace in a cache.
#include <gtest/gtest.h>

#include "sim/tests/persist_space.hpp"

namespace penstock::sim::writers_test {
namespace {

/// A writer on node 1, which begins when the table was copied and is killed within a transaction.
struct Mortal {
  bool may_begin = false, stored = false;
  std::uint64_t token = 0;
};

void write_until_killed(World& world, const PersistSpace& space, Mortal& mortal) {
  Member member(world, space);
  mortal.token = member.pool->token();
  wait_until(world, "copies of the table", [&] { return mortal.may_begin; });
  const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
  must(world, log->begin());
  must(world, log->add(member.objects[0], 0, object_words * 8));
  member.store(member.objects[0], 0, object_words / 2, 7);
  mortal.stored = true;
  world.until([] { return false; });
}

/// Puts the table, with no writer in it, into this node's cache.
void copy_table(World& world, Member& member) {
  { const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes)); }
  fetch_everything(member);
}

/// `look` finds the mortal although the lines that it copied name no writer.
Scenario behind_copies(const PersistSpace& space, std::function<void(Member&)> look) {
  Scenario scenario =
      with_lasting_copies(space.scenario("table of writers, old copies", persist_nodes));
  scenario.body = [&space, look](World& world) {
    auto mortal = std::make_shared<Mortal>();
    auto ended = std::make_shared<bool>(false);
    Process& writer =
        world.spawn(1, [&world, &space, mortal] { write_until_killed(world, space, *mortal); });
    world.spawn(0, [&world, &space, &writer, look, mortal, ended] {
      Member member(world, space);
      copy_table(world, member);
      mortal->may_begin = true;
      wait_until(world, "the mortal", [&] { return mortal->stored; });
      world.kill(writer);
      world.evict_left_dirty();
      wait_until(world, "its death", [&] { return !member.pool->alive(mortal->token); });
      world.spawn(1, [&world, &space, ended] { visit_until(world, space, *ended); });
      look(member);
      *ended = true;
    });
  };
  return scenario;
}

TEST(TableOfWriters, RereadByProcessThatReaps) {
  const PersistSpace space;
  const Scenario scenario = behind_copies(space, [](Member& member) {
    const auto found = must(member.world, persist::recover(*member.arena));
    member.world.require(found.logs + found.waiting.size() == 1, "the dead writer was not found");
  });
  expect_held("transactions", "old copies", explore(scenario, 5));
}

TEST(TableOfWriters, RereadByProcessThatMeetsDeadOwner) {
  const PersistSpace space;
  const Scenario scenario = behind_copies(space, [](Member& member) {
    member.world.require(member.read(member.objects[0]) == 0, "the object was not restored");
  });
  expect_held("transactions", "old copies", explore(scenario, 5));
}

/// Sends all dirty lines, as caches may do at any time.
void evict_everything(Member& member) {
  const coherence::Memory& memory = member.pool->memory();
  for (const arena::Object& object : member.arena->list())
    memory.write_back(object.data, object.bytes);
  memory.full_fence();
}

/// A process on one node gives back its first line, one on another node takes it, and then all
/// dirty lines leave the other caches.
Scenario line_of_two(const PersistSpace& space) {
  Scenario scenario =
      with_lasting_copies(space.scenario("table of writers, a line of two", persist_nodes));
  scenario.body = [&space](World& world) {
    auto first_token = std::make_shared<std::uint64_t>(0);  // set when it has closed its log
    auto mortal = std::make_shared<Mortal>();
    auto ended = std::make_shared<bool>(false);
    Process& first = world.spawn(2, [&world, &space, first_token] {
      Member member(world, space);
      copy_table(world, member);
      *first_token = member.pool->token();
      world.until([] { return false; });
    });
    Process& second =
        world.spawn(1, [&world, &space, mortal] { write_until_killed(world, space, *mortal); });
    world.spawn(0, [&world, &space, &first, &second, first_token, mortal, ended] {
      Member member(world, space);
      wait_until(world, "the first writer", [&] { return *first_token != 0; });
      world.kill(first);
      for (const std::uint32_t node : {1u, 2u})
        world.spawn(node, [&world, &space, ended] { visit_until(world, space, *ended); });
      wait_until(world, "its death", [&] { return !member.pool->alive(*first_token); });
      member.recover();  // erases the line, unless it is erased
      world.evict_left_dirty();
      mortal->may_begin = true;
      wait_until(world, "the mortal", [&] { return mortal->stored; });
      evict_everything(member);
      world.kill(second);
      world.evict_left_dirty();
      wait_until(world, "its death", [&] { return !member.pool->alive(mortal->token); });
      world.require(member.read(member.objects[0]) == 0, "the object was not restored");
      *ended = true;
    });
  };
  return scenario;
}

TEST(TableOfWriters, ErasedLineStaysInNoCache) {
  const PersistSpace space;
  expect_held("transactions", "old copies", explore(line_of_two(space), 5));
}

}  // namespace
}  // namespace penstock::sim::writers_test
