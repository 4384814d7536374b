// Checkpoints on memory without coherence: written by several nodes, killed anywhere, read
// meanwhile, and read after a power cut.
#include <gtest/gtest.h>

#include "sim/tests/persist_space.hpp"

namespace penstock::sim::checkpoint_test {
namespace {

constexpr std::uint64_t rank_words = 50;  ///< not whole lines: ranks share a line
constexpr std::uint32_t ranks = 2;
constexpr std::uint64_t all_words = ranks * rank_words;

/// Facts that ranks exchange by their messages, not through the pool.
struct Job {
  std::uint64_t flushed[ranks] = {};
  std::uint64_t committed = 0, trying = 0;
  bool ended = false;
};

std::uint64_t word_of(std::uint64_t version, std::uint64_t index) {
  return version << 16 | index;
}

void save(World& world, persist::Checkpoint& saved, Job& job, std::uint32_t rank) {
  const std::uint64_t version = must(world, saved.begin());
  if (rank == 0) job.trying = version;
  std::vector<std::uint64_t> words;
  for (std::uint64_t i = 0; i < rank_words; ++i)
    words.push_back(word_of(version, rank * rank_words + i));
  must(world, saved.write(rank * rank_words * 8, words.data(), words.size() * 8));
  must(world, saved.flush());
  job.flushed[rank] = version;
  if (rank == 0) {
    wait_until(world, "all ranks", [&] { return job.flushed[1] >= version; });
    must(world, saved.commit(version * 3));
    job.committed = version;
  }
  wait_until(world, "the commit", [&] { return job.committed >= version; });
}

/// Reads again if a newer version was committed; returns its version.
std::uint64_t read_whole(World& world, persist::Checkpoint& saved) {
  for (;;) {
    const auto valid = must(world, saved.valid());
    if (valid.version == 0) return 0;
    std::vector<std::uint64_t> words(all_words);
    const auto read = saved.read(valid.version, words.data(), 0, all_words * 8);
    if (!read) continue;
    world.require(valid.tag == valid.version * 3, "the tag belongs to another version");
    for (std::uint64_t i = 0; i < all_words; ++i)
      world.require(words[i] == word_of(valid.version, i),
                    fmt::format("word {} of version {} is {:#x}", i, valid.version, words[i]));
    return valid.version;
  }
}

void run_rank(World& world, const PersistSpace& space, Job& job, std::uint32_t rank, int versions) {
  Member member(world, space);
  auto saved = must(world, persist::Checkpoint::open(*member.arena, "saved"));
  for (int i = 0; i < versions; ++i) save(world, saved, job, rank);
  job.ended = true;
}

void require_possible(World& world, const Job& job, std::uint64_t version) {
  world.require(version == job.committed || version == job.trying,
                fmt::format("version {} is valid, {} was committed and {} begun", version,
                            job.committed, job.trying));
}

Scenario rank_dies(const PersistSpace& space) {
  Scenario scenario = space.scenario("checkpoints, a rank dies", persist_nodes);
  scenario.max_steps = 8'000'000;
  scenario.body = [&space](World& world) {
    auto job = std::make_shared<Job>();
    std::vector<Process*> processes;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      processes.push_back(&world.spawn(
          rank, [&world, &space, job, rank] { run_rank(world, space, *job, rank, 3); }));
    world.mark_victim(*processes[world.random() % ranks]);
    world.spawn(2, [&world, &space, job, processes] {
      Member member(world, space);
      auto saved = must(world, persist::Checkpoint::open(*member.arena, "saved"));
      std::uint64_t last = 0;
      while (!gone(*world.victim())) {
        const std::uint64_t before = job->committed;
        const std::uint64_t version = read_whole(world, saved);
        world.require(version >= last && version >= before && version <= job->trying,
                      "an older version came back");
        last = version;
      }
      for (Process* each : processes)  // as the launcher kills them
        if (!gone(*each) && world.victim()->dead) world.kill(*each);
      wait_until(world, "all", [&] { return gone(*processes[0]) && gone(*processes[1]); });
      require_possible(world, *job, read_whole(world, saved));
      world.evict_left_dirty();
      require_possible(world, *job, read_whole(world, saved));
      const std::uint64_t version = must(world, saved.begin());  // the next job has one rank
      std::vector<std::uint64_t> words;
      for (std::uint64_t i = 0; i < all_words; ++i) words.push_back(word_of(version, i));
      must(world, saved.write(0, words.data(), words.size() * 8));
      must(world, saved.commit(version * 3));
      world.require(read_whole(world, saved) == version, "another version is valid");
    });
  };
  return scenario;
}

TEST(Checkpoints, AreWholeWhenARankDies) {
  const PersistSpace space;
  const Scenario scenario = rank_dies(space);
  expect_held("checkpoints", "random schedules", explore(scenario, 30));
  expect_held("checkpoints", "crash points", crash_everywhere(scenario, 80));
  expect_held("checkpoints", "random schedules", explore(with_lasting_copies(scenario), 30));
}
TEST(Checkpoints, StayWholeWhenRankDiesWithinLine) {
  const PersistSpace space;
  expect_held("checkpoints", "deaths within a line",
              explore(dying_in_a_line(rank_dies(space), 60), 60));
}

/// A committed version is there after a power cut.
Scenario power_cut(const PersistSpace& space) {
  Scenario scenario = space.scenario("checkpoints, a power cut", persist_nodes);
  scenario.max_steps = 8'000'000;
  scenario.body = [&space](World& world) {
    auto job = std::make_shared<Job>();
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      world.spawn(rank,
                  [&world, &space, job, rank] { run_rank(world, space, *job, rank, 100'000); });
    world.spawn(2, [&world, &space, job] {
      wait_until(world, "a version", [&] { return job->trying != 0; });
      const std::uint64_t until = world.steps() + world.random() % 1500;
      world.until([&] { return world.steps() >= until; });
      for (std::uint32_t node = 0; node < ranks; ++node) world.lose_node(node);
      Member member(world, space);
      auto saved = must(world, persist::Checkpoint::open(*member.arena, "saved"));
      require_possible(world, *job, read_whole(world, saved));
    });
  };
  return scenario;
}

/// The power fails as soon as a commit has returned: what its caller then tells others must be
/// true.
Scenario power_cut_behind_commit(const PersistSpace& space) {
  Scenario scenario = space.scenario("checkpoints, a power cut behind a commit", persist_nodes);
  scenario.body = [&space](World& world) {
    auto job = std::make_shared<Job>();
    job->flushed[1] = UINT64_MAX;  // there is no other rank
    const std::uint64_t versions = 1 + world.random() % 3;
    world.spawn(0, [&world, &space, job, versions] {
      Member member(world, space);
      auto saved = must(world, persist::Checkpoint::open(*member.arena, "saved"));
      while (job->committed < versions) save(world, saved, *job, 0);
      world.until([] { return false; });
    });
    world.spawn(2, [&world, &space, job, versions] {
      world.until([&] { return job->committed == versions; });
      world.lose_node(0);
      Member member(world, space);
      const auto saved = must(world, persist::Checkpoint::open(*member.arena, "saved"));
      const std::uint64_t found = must(world, saved.valid()).version;
      world.require(found == versions,
                    fmt::format("version {} is valid, {} was committed", found, versions));
    });
  };
  return scenario;
}

TEST(Checkpoints, APowerCutLosesNoneThatWasCommitted) {
  const PersistSpace space;
  expect_held("checkpoints", "power cuts", explore(power_cut(space), 60));
  expect_held("checkpoints", "power cuts", explore(power_cut_behind_commit(space), 40));
}

/// Two processes make it at the same time, a third opens it.
TEST(Checkpoints, AreMadeOnce) {
  const PersistSpace space;
  Scenario scenario = space.scenario("checkpoints, made by two", persist_nodes);
  scenario.body = [&space](World& world) {
    auto made = std::make_shared<int>(0);
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, &space, made] {
        Member member(world, space);
        auto one = must(world, persist::Checkpoint::create(*member.arena, "new", 64));
        world.require(must(world, one.valid()).version <= 1, "another version");
        if (++*made == 1) {
          must(world, one.begin());
          must(world, one.commit(5));
        }
      });
    }
    world.spawn(2, [&world, &space, made] {
      wait_until(world, "one that makes it", [&] { return *made > 0; });
      Member member(world, space);
      (void)must(world, persist::Checkpoint::open(*member.arena, "new"));
    });
  };
  expect_held("checkpoints", "random schedules", explore(scenario, 40));
}

/// A process that holds copies of an unfinished checkpoint finds it once it is finished.
TEST(Checkpoints, AreFoundBehindOldCopies) {
  const PersistSpace space;
  Scenario scenario =
      with_lasting_copies(space.scenario("checkpoints, behind old copies", persist_nodes));
  scenario.body = [&space](World& world) {
    auto step = std::make_shared<int>(0);
    world.spawn(1, [&world, &space, step] {
      Member member(world, space);
      must(world, member.arena->create(
                      "new", persist::pair_bytes + 2 * persist::page_bytes,
                      {.lifetime = arena::Lifetime::persistent, .alignment = persist::page_bytes}));
      *step = 1;
      wait_until(world, "copies of zeros", [&] { return *step == 2; });
      (void)must(world, persist::Checkpoint::create(*member.arena, "new", 64,
                                                    arena::Lifetime::persistent));
      *step = 3;
    });
    world.spawn(0, [&world, &space, step] {
      Member member(world, space);
      wait_until(world, "one that is being made", [&] { return *step == 1; });
      fetch_everything(member);
      *step = 2;
      wait_until(world, "one that is made", [&] { return *step == 3; });
      (void)must(world, persist::Checkpoint::open(*member.arena, "new"));
    });
  };
  expect_held("checkpoints", "old copies", explore(scenario, 5));
}

}  // namespace
}  // namespace penstock::sim::checkpoint_test
