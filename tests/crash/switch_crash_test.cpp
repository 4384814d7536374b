// SIGKILL between all stores of a computing switch, and of a rank that uses it. If the switch dies,
// each rank completes each call with the right result. If a rank dies, the other gets an error that
// names it, and the switch continues. The pool is clean afterwards.
#include <sys/mman.h>

#include <atomic>
#include <random>

#include "accelerator/server.hpp"
#include "coll/agreement.hpp"
#include "crash_test_base.hpp"
#include "offload/switch_port.hpp"
#include "sim/tests/switch_calls.hpp"

namespace penstock::crash {
namespace {

using accelerator::Server;
using sim::SwitchCall;

constexpr std::uint32_t ranks = 2, switch_node = ranks;

/// State that the job's processes share outside the pool.
struct Told {
  std::atomic<bool> ended;  ///< the victim has ended
  std::atomic<bool> over;   ///< the ranks have ended too
  std::atomic<bool> offered[ranks];
  coll::Offer offers[ranks];
};

enum class Who : std::uint32_t { rank0, rank1, the_switch };
std::string name_of(Who who) {
  constexpr const char* names[] = {"Rank0", "Rank1", "Switch"};
  return names[static_cast<std::uint32_t>(who)];
}

class SwitchCrash : public CrashTest,
                    public testing::WithParamInterface<std::tuple<coherence::Mode, Who>> {
 protected:
  static Who victim() { return std::get<1>(GetParam()); }
  static bool rank_dies() { return victim() != Who::the_switch; }

  void SetUp() override {
    ::setenv("PENSTOCK_COLL_SWITCH", "always", 1);
    create(32 << 20, 16, std::get<0>(GetParam()));
    void* const shared =
        ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    told_ = new (shared) Told{};
    std::mt19937_64 random(seed());
    for (int i = 0; i < 5; ++i) calls_.push_back(sim::draw_switch_call(ranks, random));
  }
  void TearDown() override {
    ::unsetenv("PENSTOCK_COLL_SWITCH");
    if (told_ != nullptr) ::munmap(told_, sizeof(Told));
  }

  // ---- run in processes of their own -----------------------------------------------------------

  static void rest() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }
  /// Waits for a condition. False if the victim has ended meanwhile.
  bool wait_for(const std::function<bool()>& holds) const {
    while (!holds()) {
      if (told_->ended) return holds();
      rest();
    }
    return true;
  }

  /// Runs the switch until its communicator is gone or, if a rank dies, until all is over.
  void play(const std::function<void()>& armed) const {
    const auto attach_to = [this](const pool::AttachOptions& how) {
      pool::AttachOptions options = how;
      options.spec = spec_;
      options.emulated_node = switch_node;
      return pool::Pool::attach(options);
    };
    armed();
    auto opened = Server::open({.attach = attach_to});
    if (!opened) throw std::runtime_error(opened.error().message);
    Server& server = **opened;
    const auto is_over = [&] {
      return rank_dies() ? told_->over.load()
                         : server.communicators_ever() != 0 && server.communicators() == 0;
    };
    while (!is_over())
      if (!server.poll()) rest();
    if (const auto closed = server.close(); !closed)
      throw std::runtime_error(closed.error().message);
  }

  /// Runs a rank. Throws if a result is wrong; returns if an error says that the victim has died.
  void take_part(std::uint32_t self, const std::function<void()>& armed) const {
    const auto here = attach(
        spec_, {.rank = static_cast<std::int32_t>(self), .job = "crash", .emulated_node = self});
    if (!wait_for([&] { return offload::serving(*here.arena)->has_value(); }) && rank_dies())
      return;
    armed();
    coll::Agreement agreement(ranks, self, offload::switch_port());
    const auto comm = open(here, agreement, self);
    if (comm == nullptr) return;
    for (const SwitchCall& call : calls_) {
      if (const auto done = make(*comm, call, self); !done) return expect_death(done.error());
    }
    comm->leave();
    if (self != 0) return;
    if (const auto left = comm->await_all_left("the end"); !left) expect_death(left.error());
    agreement.give_back();
  }
  std::unique_ptr<coll::Communicator> open(const Attached& here, coll::Agreement& agreement,
                                           std::uint32_t self) const {
    if (const auto offered =
            agreement.offer(coll::space_in(*here.arena, "comm"), {.slot_bytes = 256});
        !offered)
      throw std::runtime_error(offered.error().message);
    told_->offers[self] = agreement.own();
    told_->offered[self] = true;
    if (!wait_for([&] { return told_->offered[0] && told_->offered[1]; }) && rank_dies())
      return nullptr;
    wait_for_offers();
    auto comm = coll::Communicator::open(
        *here.pool,
        agreement.options(*here.pool, {std::begin(told_->offers), std::end(told_->offers)}));
    if (!comm) throw std::runtime_error(comm.error().message);
    return std::move(*comm);
  }
  /// Waits for the offers of both ranks, which get there even if the switch has died.
  void wait_for_offers() const {
    while (!told_->offered[0] || !told_->offered[1]) rest();
  }
  static Result<void> make(coll::Communicator& comm, const SwitchCall& call, std::uint32_t self) {
    sim::SwitchCallBuffers own(call, self);
    std::optional<coll::PredefinedArithmetic> arithmetic;
    if (call.reduces()) arithmetic.emplace(call.reduction());
    PENSTOCK_TRY(comm.run({.name = name_of(call.collective),
                           .problem = &own.problem,
                           .plan = comm.plan(own.problem),
                           .input = own.in.data(),
                           .output = own.output(),
                           .arithmetic = arithmetic ? &*arithmetic : nullptr}));
    if (const auto fault = own.fault(call, self); !fault.empty())
      throw std::runtime_error(call.text() + ": " + fault);
    return {};
  }
  static void expect_death(const Error& error) {
    const auto name = fmt::format("rank {}", static_cast<std::uint32_t>(victim()));
    if (rank_dies() && error.message.find(name) != std::string::npos) return;
    throw std::runtime_error("not what is expected: " + error.message);
  }

  // ---- run by the test itself ------------------------------------------------------------------

  void live(Who who, const std::function<void()>& armed) const {
    if (who == Who::the_switch) return play(armed);
    take_part(static_cast<std::uint32_t>(who), armed);
  }
  std::unique_ptr<pool::Child> start(Who who) const {
    return std::make_unique<pool::Child>([this, who](const pool::Child::Report&) {
      try {
        live(who, [] {});
        return 0;
      } catch (const std::exception& error) {
        fmt::print(stderr, "process {}: {}\n", static_cast<std::uint32_t>(who), error.what());
        return 3;
      }
    });
  }
  void begin() {
    told_->ended = told_->over = told_->offered[0] = told_->offered[1] = false;
    for (const Who who : {Who::rank0, Who::rank1, Who::the_switch})
      if (who != victim()) others_.push_back(start(who));
  }
  void end() {
    told_->ended = true;
    for (const auto& child : others_) {
      if (child == others_.back()) told_->over = true;
      EXPECT_EQ(child->wait(), 0);
    }
    others_.clear();
  }

  Told* told_ = nullptr;
  std::vector<SwitchCall> calls_;
  std::vector<std::unique_ptr<pool::Child>> others_;
};

TEST_P(SwitchCrash, TheOthersGoOnOrAreTold) {
  survive_everywhere(
      fmt::format("switch, {} dies, {}", name_of(victim()), mode_name(std::get<0>(GetParam()))), 20,
      [&](const auto& armed) { live(victim(), armed); }, [&] { end(); }, [&] { begin(); });
}

INSTANTIATE_TEST_SUITE_P(Modes, SwitchCrash,
                         testing::Combine(testing::Values(coherence::Mode::hardware,
                                                          coherence::Mode::software),
                                          testing::Values(Who::rank0, Who::rank1, Who::the_switch)),
                         [](const auto& of) {
                           return std::string(mode_name(std::get<0>(of.param))) +
                                  name_of(std::get<1>(of.param));
                         });

}  // namespace
}  // namespace penstock::crash
