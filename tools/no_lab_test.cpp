#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "command.hpp"

namespace penstock::tools {
namespace {

using ::testing::HasSubstr;

TEST(NoLab, SaysHowToGetAbsentCommands) {
  const std::vector<std::string> commands = {"switch shm:pool",
                                             "model collectives --quick",
                                             "timeline folder",
                                             "limits",
                                             "footprint --ranks 4",
                                             "stream",
                                             "tune"};
  for (const std::string& words : commands) {
    CLI::App app;
    Action chosen;
    add_switch_command(app, chosen);
    add_measurements(app, chosen);
    add_model_command(app, chosen);
    add_timeline_command(app, chosen);
    EXPECT_THAT(app.help(), Not(HasSubstr(words.substr(0, words.find(' ')))));
    app.parse(words);
    ASSERT_TRUE(chosen) << words;
    EXPECT_EQ(chosen(), exit_error);
    EXPECT_THAT(last_reported(), HasSubstr("PENSTOCK_LAB=ON"));
  }
}

}  // namespace
}  // namespace penstock::tools
