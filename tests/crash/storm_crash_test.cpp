// Many processes on one pool. All attach and leave, open and close endpoints, and send on channels
// that grow, move and shrink again, while some are killed at any moment.
#include <new>

#include "base/environment_guard.hpp"
#include "storm.hpp"
#include "transport/test_tiles.hpp"

namespace penstock::crash {
namespace {

/// Few slots, in blocks of two, so that all are soon reused and nodes take blocks from each other.
constexpr std::uint32_t slots = 48, emulated_nodes = 4, members_at_once = 6;

/// Memory that forked processes share.
class SharedBoard {
 public:
  SharedBoard()
      : at_(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0)) {
    if (at_ == MAP_FAILED) throw std::bad_alloc();
    new (at_) Board;
  }
  ~SharedBoard() { ::munmap(at_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board& operator*() const { return *static_cast<Board*>(at_); }
  Board* operator->() const { return static_cast<Board*>(at_); }

 private:
  void* at_;
};

class StormCrash : public CrashTest, public testing::WithParamInterface<coherence::Mode> {
 protected:
  void SetUp() override {
    const auto made = pool::create({.spec = spec_,
                                    .bytes = 64 << 20,
                                    .mode = GetParam(),
                                    .max_processes = slots,
                                    .max_nodes = emulated_nodes + 1});
    ASSERT_TRUE(made) << made.error().message;
    empty_ = collected(spec_);
  }

  /// Runs a storm in which `deaths` processes die, by themselves or from outside; the others must
  /// survive.
  void survive(std::uint32_t deaths, std::uint64_t seed) {
    SCOPED_TRACE(fmt::format("TEST_SEED={}", seed));
    SharedBoard board;
    std::mt19937_64 random(seed);
    rage(*board, deaths, random);
    EXPECT_EQ(board->faults, 0u) << "said above";
    EXPECT_GT(board->messages, 0u);
    fmt::print("storm: {} members, {} killed, {} endpoints, {} messages, seed {}\n", members_,
               board->deaths.load(), board->lives.load(), board->messages.load(), seed);
    expect_all_is_back();
  }

 private:
  void rage(Board& board, std::uint32_t deaths, std::mt19937_64& random) {
    members_ = 0;
    std::vector<std::unique_ptr<pool::Child>> children;
    std::vector<std::uint32_t> numbers;
    const auto join = [&] {
      const std::uint32_t number = members_++;
      const std::uint64_t seed = random();
      numbers.push_back(number);
      children.push_back(
          std::make_unique<pool::Child>([&, number, seed](const pool::Child::Report&) {
            try {
              Member(board, spec_, number, seed).run();
              return 0;
            } catch (const std::exception& error) {
              board.complain(error.what());
              return 1;
            }
          }));
    };
    const auto collect = [&] {
      for (std::size_t i = 0; i < children.size();) {
        if (!has_ended(*children[i])) {
          ++i;
          continue;
        }
        const int status = children[i]->wait();
        const bool killed = status == 128 + SIGKILL && board.members[numbers[i]].doomed;
        EXPECT_TRUE(status == 0 || killed) << "member " << numbers[i] << ": status " << status;
        board.deaths += killed ? 1 : 0;
        children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
        numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(i));
      }
    };
    while (board.deaths < deaths && board.faults == 0 && board.lives < max_lives &&
           members_ < max_members - members_at_once) {
      while (children.size() < members_at_once) join();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
      const std::size_t victim = random() % children.size();
      if (random() % 4 == 0) {
        board.members[numbers[victim]].doomed = true;
        children[victim]->kill(SIGKILL);
      }
      collect();
    }
    board.over = true;
    const std::uint64_t end = base::now_ns() + 4 * limit_ns;
    for (; !children.empty() && base::now_ns() < end; collect())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(children.empty()) << children.size() << " survivors hang";
  }

  static bool has_ended(const pool::Child& child) {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid != 0;
  }

  void expect_all_is_back() {
    (void)collected(spec_);
    for (const std::uint32_t node : {0u, emulated_nodes - 1}) {
      std::vector<Attached> all;
      for (std::uint32_t i = 0; i < slots; ++i)
        ASSERT_NO_THROW(all.push_back(attach(spec_, {.emulated_node = node})))
            << "slot " << i << " of node " << node;
    }
    expect_job_works(spec_, 3);
    {
      const Attached here = attach(spec_);
      EXPECT_EQ(transport::fault_of_tiles(*here.arena), "");
      for (const arena::Object& object : here.arena->list()) {
        EXPECT_TRUE(object.name.starts_with("penstock.endpoints")) << object.name << " is left";
        EXPECT_TRUE(here.arena->destroy(object)) << object.name;
      }
    }
    EXPECT_EQ(collected(spec_), empty_);
  }

  const base::EnvironmentItems first_lines_{"PENSTOCK_CHANNELS", "first_lines=16"};
  const base::EnvironmentItems cell_{"PENSTOCK_CHANNELS", "cell=4096"};
  const base::EnvironmentItems idle_{"PENSTOCK_CHANNELS", "idle_ms=100"};
  Standing empty_;
  std::uint32_t members_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Modes, StormCrash,
                         testing::Values(coherence::Mode::software, coherence::Mode::hardware),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

TEST_P(StormCrash, WhoeverIsKilledTheOthersGoOn) {
  survive(number_or("STORM_DEATHS", 24), seed());
}

/// A hundred storms on one pool, for make test-long.
TEST_P(StormCrash, DISABLED_LongOfManyStorms) {
  for (std::uint64_t storm = 0; storm < number_or("STORMS", 100) && !HasFailure(); ++storm)
    survive(40, seed() + storm);
}

}  // namespace
}  // namespace penstock::crash
