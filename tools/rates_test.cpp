#include "rates.hpp"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

pool::ProcessRecord process(std::uint32_t slot, std::uint64_t generation, std::uint64_t messages) {
  pool::ProcessRecord record;
  record.slot = slot;
  record.generation = generation;
  record.messages_sent = messages;
  record.bytes_sent = messages * 100;
  record.messages_received = messages * 2;
  record.bytes_received = messages * 300;
  return record;
}

TEST(RateMeter, GivesWhatWasAddedInASecond) {
  RateMeter meter;
  meter.begin(5 * second_ns);
  EXPECT_FALSE(meter.rates_of("a", process(1, 1, 10)));
  meter.begin(7 * second_ns);
  const auto rates = meter.rates_of("a", process(1, 1, 40));
  ASSERT_TRUE(rates);
  EXPECT_DOUBLE_EQ(rates->messages_sent, 15);
  EXPECT_DOUBLE_EQ(rates->bytes_sent, 1500);
  EXPECT_DOUBLE_EQ(rates->messages_received, 30);
  EXPECT_DOUBLE_EQ(rates->bytes_received, 4500);
}

TEST(RateMeter, TellsProcessesApart) {
  RateMeter meter;
  meter.begin(second_ns);
  (void)meter.rates_of("a", process(1, 1, 10));
  meter.begin(2 * second_ns);
  EXPECT_FALSE(meter.rates_of("b", process(1, 1, 20))) << "another pool";
  EXPECT_FALSE(meter.rates_of("a", process(2, 1, 20))) << "another slot";
  EXPECT_FALSE(meter.rates_of("a", process(1, 2, 20))) << "a later process in the slot";
  EXPECT_TRUE(meter.rates_of("a", process(1, 1, 20)));
}

TEST(RateMeter, CountsThatShrinkAreNoRate) {
  RateMeter meter;
  meter.begin(second_ns);
  (void)meter.rates_of("a", process(1, 1, 10));
  meter.begin(2 * second_ns);
  EXPECT_DOUBLE_EQ(meter.rates_of("a", process(1, 1, 5))->bytes_sent, 0);
}

TEST(RateMeter, NewcomerHasNoRates) {
  RateMeter meter;
  meter.begin(second_ns);
  (void)meter.rates_of("a", process(1, 1, 10));
  meter.begin(2 * second_ns);
  meter.begin(3 * second_ns);
  EXPECT_FALSE(meter.rates_of("a", process(1, 1, 20)));
}

}  // namespace
}  // namespace penstock::tools
