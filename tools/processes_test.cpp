#include "processes.hpp"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

pool::ProcessRecord record(std::uint32_t slot, std::int64_t pid) {
  pool::ProcessRecord record;
  record.slot = slot;
  record.host = "a";
  record.scope = 7;
  record.pid = pid;
  record.start_time = 100;
  record.attached_wall_ns = 1000 + slot;
  record.attached = record.alive = true;
  record.messages_sent = slot + 1;
  return record;
}

TEST(Processes, RecordsOfOneProcessAreOne) {
  auto other = record(2, 11), second = record(1, 10);
  second.activity = "waits for rank 1";
  second.bytes_received = 5;
  auto first = record(0, 10);
  first.activity = "polls for messages since 12:00:00 UTC";
  const auto found = by_process({first, second, other});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].slot, 0u);
  EXPECT_EQ(found[0].messages_sent, 3u);
  EXPECT_EQ(found[0].bytes_received, 5u);
  EXPECT_EQ(found[0].activity, "waits for rank 1");
  EXPECT_EQ(found[0].attached_wall_ns, 1000u);
  EXPECT_EQ(found[1].pid, 11);
  EXPECT_EQ(found[1].messages_sent, 3u);
}

TEST(Processes, AnotherHostNamespaceOrTimeIsAnotherProcess) {
  auto of_host = record(1, 10), of_namespace = record(2, 10), later = record(3, 10);
  of_host.host = "b";
  of_namespace.scope = 8;
  later.start_time = 101;
  EXPECT_EQ(by_process({record(0, 10), of_host, of_namespace, later}).size(), 4u);
}

TEST(Processes, OneThatLeftOnceIsAttachedStill) {
  auto left = record(0, 10), dead = record(1, 11), left_dead = record(2, 11);
  left.attached = false;
  dead.alive = left_dead.attached = false;
  const auto found = by_process({left, record(3, 10), dead, left_dead});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].attached && found[0].alive);
  EXPECT_TRUE(found[1].attached);
  EXPECT_FALSE(found[1].alive);
}

}  // namespace
}  // namespace penstock::tools
