// The files that a trace writes. tests/e2e/timeline_test.py covers that executors record steps.
#include "coll/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace penstock::coll {
namespace {

using testing::HasSubstr;

class TraceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-trace-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator(folder_))
      found.push_back(each.path().string());
    return found;
  }
  static std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  std::string folder_;
};

TEST_F(TraceTest, KeepsWhatFitsAndCountsTheRest) {
  Trace trace(folder_, 3);
  for (std::uint32_t i = 0; i < 5; ++i)
    trace.add({.begin_ns = 10 * i,
               .end_ns = 10 * i + 7,
               .bytes = 64,
               .number = 2,
               .rank = 1,
               .chunk = i,
               .device = 4,
               .kind = StepKind::publish,
               .lane = Lane::write});
  const auto written = trace.write();
  ASSERT_TRUE(written) << written.error().message;
  const auto lines = lines_of(*written);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], HasSubstr("\"penstock_trace\": 1"));
  EXPECT_THAT(lines[0], HasSubstr("\"spans\": 3, \"dropped\": 2"));
  EXPECT_EQ(lines[3],
            "{\"begin_ns\": 20, \"end_ns\": 27, \"step\": \"publish\", \"lane\": \"write\", "
            "\"rank\": 1, \"peer\": 0, \"chunk\": 2, \"bytes\": 64, \"device\": 4, "
            "\"communicator\": 0, \"number\": 2}");
  // The process may hold a second trace, as a second library in it would.
  const auto again = trace.write();
  ASSERT_TRUE(again);
  EXPECT_NE(*again, *written);
}

TEST_F(TraceTest, WritesAtItsEndUnlessItIsEmpty) {
  { Trace trace(folder_, 4); }
  EXPECT_TRUE(files().empty());
  {
    Trace trace(folder_, 4);
    trace.add({});
  }
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(lines_of(files()[0]).size(), 2u);
}

TEST_F(TraceTest, SaysWhyItCannotBeWritten) {
  Trace trace(folder_ + "/absent", 4);
  const auto written = trace.write();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::permission);
  EXPECT_THAT(written.error().message, HasSubstr("PENSTOCK_TRACE must name a folder of yours"));
}

}  // namespace
}  // namespace penstock::coll
