// Rates that can be computed by hand, and the lanes that run at them.
#include "model/fluid.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/seed_in_tests.hpp"
#include "model/machine.hpp"

namespace penstock::model {
namespace {

TEST(Fluid, OneTransferHasTheLink) {
  Fluid fluid;
  const Resource link = fluid.add_resource(10);
  const Flow flow = fluid.start(50, {{link}});
  EXPECT_DOUBLE_EQ(fluid.rate_of(flow), 10);
  EXPECT_DOUBLE_EQ(fluid.until_next(), 5);
  EXPECT_TRUE(fluid.advance(2).empty());
  EXPECT_DOUBLE_EQ(fluid.until_next(), 3);
  EXPECT_THAT(fluid.advance(3), testing::ElementsAre(flow));
  EXPECT_DOUBLE_EQ(fluid.carried(link), 50);
  EXPECT_EQ(fluid.until_next(), never);
}

TEST(Fluid, TwoTransfersShareALinkEvenly) {
  Fluid fluid;
  const Resource link = fluid.add_resource(10);
  const Flow small = fluid.start(10, {{link}}), large = fluid.start(30, {{link}});
  EXPECT_DOUBLE_EQ(fluid.rate_of(small), 5);
  EXPECT_THAT(fluid.advance(2), testing::ElementsAre(small));
  EXPECT_DOUBLE_EQ(fluid.rate_of(large), 10);  // it is alone now
  EXPECT_DOUBLE_EQ(fluid.until_next(), 2);
}

/// Three links of 10, 4 and 9. A uses the first, B the first and second, C the second and third, D
/// the third. The second is full first, at 2 each; then D gets 7 and A gets 8.
TEST(Fluid, IsMaxMinFair) {
  Fluid fluid;
  const Resource first = fluid.add_resource(10), second = fluid.add_resource(4),
                 third = fluid.add_resource(9);
  const Flow a = fluid.start(1e3, {{first}}), b = fluid.start(1e3, {{first}, {second}}),
             c = fluid.start(1e3, {{second}, {third}}), d = fluid.start(1e3, {{third}});
  EXPECT_DOUBLE_EQ(fluid.rate_of(a), 8);
  EXPECT_DOUBLE_EQ(fluid.rate_of(b), 2);
  EXPECT_DOUBLE_EQ(fluid.rate_of(c), 2);
  EXPECT_DOUBLE_EQ(fluid.rate_of(d), 7);
}

/// A reduction that reads two devices at once, half of its bytes from each.
TEST(Fluid, TransferMayUsePartOfLink) {
  Fluid fluid;
  const Resource one = fluid.add_resource(10), other = fluid.add_resource(10);
  const Flow both = fluid.start(100, {{one, 0.5}, {other, 0.5}});
  EXPECT_DOUBLE_EQ(fluid.rate_of(both), 20);
  const Flow plain = fluid.start(100, {{one}});
  // x / 2 + x = 10 on the first device: all rates rise together.
  EXPECT_NEAR(fluid.rate_of(both), 20.0 / 3, 1e-9);
  EXPECT_NEAR(fluid.rate_of(plain), 20.0 / 3, 1e-9);
}

/// The property of a max-min fair sharing: each transfer uses a full link on which no other
/// transfer has a higher rate.
TEST(Fluid, GivesEveryTransferABottleneck) {
  std::mt19937_64 random(base::seed_in_tests());
  for (int round = 0; round < 200; ++round) {
    Fluid fluid;
    const std::size_t links = 1 + random() % 6;
    for (std::size_t i = 0; i < links; ++i)
      fluid.add_resource(1 + static_cast<double>(random() % 20));
    std::vector<std::vector<Use>> uses;
    for (std::size_t i = 0; i < 1 + random() % 12; ++i) {
      uses.emplace_back();
      for (Resource link = 0; link < links; ++link)
        if (random() % 2 == 0) uses.back().push_back({link, random() % 3 == 0 ? 0.5 : 1});
      if (uses.back().empty()) uses.back().push_back({0});
      fluid.start(1e6, uses.back());
    }
    std::vector<double> load(links), fastest(links);
    for (Flow flow = 0; flow < uses.size(); ++flow) {
      for (const Use& use : uses[flow]) {
        load[use.resource] += use.share * fluid.rate_of(flow);
        fastest[use.resource] = std::max(fastest[use.resource], fluid.rate_of(flow));
      }
    }
    for (Resource link = 0; link < links; ++link)
      EXPECT_LE(load[link], fluid.rate(link) * 1.000001);
    for (Flow flow = 0; flow < uses.size(); ++flow) {
      const bool has = std::any_of(uses[flow].begin(), uses[flow].end(), [&](const Use& use) {
        return load[use.resource] >= fluid.rate(use.resource) * 0.999999 &&
               fluid.rate_of(flow) >= fastest[use.resource] * 0.999999;
      });
      EXPECT_TRUE(has) << "round " << round << ", transfer " << flow;
    }
  }
}

/// Carries out the actions that it was given.
class Script final : public Lane {
 public:
  Script(std::vector<Action> actions, Word signals)
      : actions_(std::move(actions)), signals_(signals) {}
  Action next(Machine& machine) override {
    if (at_ == actions_.size()) {
      machine.signal(signals_, 1, 0.5);
      return {};
    }
    return actions_[at_++];
  }
  std::string name() const override { return "a script"; }

 private:
  std::vector<Action> actions_;
  Word signals_;
  std::size_t at_ = 0;
};

Action transfer(double bytes, Resource link, std::int64_t turn = -1) {
  return {.kind = Action::Kind::transfer, .bytes = bytes, .uses = {{link}}, .turn = turn};
}

TEST(Machine, WaitsForWhatIsTold) {
  Machine machine;
  const Resource link = machine.fluid().add_resource(10);
  const Word done = machine.add_word(), other = machine.add_word();
  machine.add_lane(std::make_unique<Script>(
      std::vector<Action>{{.kind = Action::Kind::pause, .seconds = 1}, transfer(20, link)}, done));
  machine.add_lane(std::make_unique<Script>(
      std::vector<Action>{{.kind = Action::Kind::await, .needs = {{done}}}, transfer(10, link)},
      other));
  EXPECT_DOUBLE_EQ(*machine.run(), 1 + 2 + 0.5 + 1 + 0.5);
}

/// Side by side, transfers of 10 and 30 end at 2 and 4; one at a time, at 1 and 4.
TEST(Machine, ServesATurnAfterTheOther) {
  for (const bool turns : {false, true}) {
    Machine machine;
    const Resource link = machine.fluid().add_resource(10);
    const std::int64_t turn = turns ? machine.add_turn() : -1;
    const Word one = machine.add_word(), other = machine.add_word();
    machine.add_lane(std::make_unique<Script>(std::vector<Action>{transfer(10, link, turn)}, one));
    machine.add_lane(
        std::make_unique<Script>(std::vector<Action>{transfer(30, link, turn)}, other));
    const Word last = machine.add_word();
    machine.add_lane(std::make_unique<Script>(
        std::vector<Action>{{.kind = Action::Kind::await, .needs = {{one}}},
                            {.kind = Action::Kind::pause, .seconds = 10}},
        last));
    EXPECT_DOUBLE_EQ(*machine.run(), (turns ? 1 : 2) + 0.5 + 10 + 0.5);
  }
}

TEST(Machine, NamesWhoNeverEnds) {
  Machine machine;
  const Word never_signalled = machine.add_word();
  machine.add_lane(std::make_unique<Script>(
      std::vector<Action>{{.kind = Action::Kind::await, .needs = {{never_signalled, 7}}}},
      never_signalled));
  const auto ended = machine.run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::deadline);
  EXPECT_THAT(ended.error().message,
              testing::HasSubstr("1 of 1 lanes never end, the first of them is a script"));
}

}  // namespace
}  // namespace penstock::model
