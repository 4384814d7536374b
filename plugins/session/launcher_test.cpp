#include "launcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <vector>

#include "base/format.hpp"

namespace penstock::plugin {
namespace {

class LauncherTest : public ::testing::Test {
 protected:
  LaunchSources sources() {
    LaunchSources sources;
    sources.environment = [this](const char* name) -> const char* {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    };
    sources.ancestor_command = [this](unsigned n) {
      return n <= ancestors.size() ? ancestors[n - 1] : std::string();
    };
    return sources;
  }
  Result<Launch> read() { return read_launch(sources()); }
  static std::string command(const std::vector<std::string>& arguments) {
    std::string joined;
    for (const std::string& argument : arguments) joined += argument + '\0';
    return joined;
  }

  std::map<std::string, std::string> environment;
  std::vector<std::string> ancestors;
};

TEST_F(LauncherTest, WithoutALauncherTheJobIsTheUsers) {
  const auto launch = read();
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, -1);
  EXPECT_EQ(launch->job, "user-" + std::to_string(::getuid()));
  EXPECT_EQ(launch->local_rank, -1);
  EXPECT_FALSE(launch->emulated_node.has_value());
}

/// Their ranks count from 0 anew, in the same job.
TEST_F(LauncherTest, SpawnedRanksHaveAWorldOfTheirOwn) {
  environment = {{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "prterun-head-4711@1"}};
  const auto first = read();
  environment["PMIX_NAMESPACE"] = "prterun-head-4711@2";
  const auto second = read();
  EXPECT_EQ(first->job, second->job);
  EXPECT_NE(first->world, second->world);
  environment = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  EXPECT_EQ(read()->world, "");
  environment["PMI_SPAWNED"] = "1";
  EXPECT_EQ(read()->world, "spawned-2");
}

TEST_F(LauncherTest, HydraJobIsWhereItsMpiexecListens) {
  environment = {
      {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}};
  ancestors = {command({"/bin/sh", "-c", "app"}),
               command({"/opt/bin/hydra_pmi_proxy", "--control-port", "head:40123", "--rmk", "user",
                        "--pgid", "1"}),
               command({"mpiexec"})};
  const auto launch = read();
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 4);
  EXPECT_EQ(launch->local_size, 2);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->job, "hydra-head:40123");
}

TEST_F(LauncherTest, PmixJobLeavesOutTheCountOfSpawns) {
  environment = {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-head-4711@2"}};
  EXPECT_EQ(read()->job, "prterun-head-4711");
  EXPECT_EQ(read()->rank, 1);
  environment["PMIX_NAMESPACE"] = std::to_string((77u << 16) | 2);
  EXPECT_EQ(read()->job, "orte-77");
}

TEST_F(LauncherTest, SlurmJobIsJobAndStep) {
  environment = {
      {"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}, {"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}};
  const auto launch = read();
  EXPECT_EQ(launch->job, "slurm-12.3");
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->size, 8);
}

TEST_F(LauncherTest, IntelMpiNamesItsMpiexec) {
  environment = {{"PMI_RANK", "0"}, {"I_MPI_HYDRA_UUID", "cc250000-5574"}};
  ancestors = {command({"/opt/bin/hydra_pmi_proxy", "--usize", "-1"})};
  EXPECT_EQ(read()->job, "intel-cc250000-5574");
}

TEST_F(LauncherTest, MpiexecInsideOfAnAllocationNamesTheJob) {
  const std::map<std::string, std::string> batch_step = {
      {"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "4294967291"}, {"SLURM_PROCID", "0"}};
  environment = batch_step;
  environment.insert({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-head-4711@1"}});
  EXPECT_EQ(read()->job, "prterun-head-4711");
  EXPECT_EQ(read()->rank, 1);
  environment = batch_step;
  environment.insert({{"PMI_RANK", "2"}, {"I_MPI_HYDRA_UUID", "cc250000-5574"}});
  EXPECT_EQ(read()->job, "intel-cc250000-5574");
  EXPECT_EQ(read()->rank, 2);
}

TEST_F(LauncherTest, OpenMpiTellsRankAndSize) {
  environment = {{"PMIX_RANK", "3"},
                 {"OMPI_COMM_WORLD_RANK", "3"},
                 {"OMPI_COMM_WORLD_SIZE", "4"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                 {"PMIX_NAMESPACE", "prterun-head-4711@1"},
                 {"PENSTOCK_NODES", "2"}};
  const auto launch = read();
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->size, 4);
  EXPECT_EQ(launch->local_size, 4);
  EXPECT_EQ(launch->emulated_node, 1u);
  EXPECT_EQ(launch->local_rank, 1);  // on its emulated node
}

TEST_F(LauncherTest, TorchrunTellsRankAndSize) {
  environment = {{"RANK", "3"},
                 {"WORLD_SIZE", "4"},
                 {"LOCAL_RANK", "1"},
                 {"LOCAL_WORLD_SIZE", "2"},
                 {"MASTER_ADDR", "head"},
                 {"MASTER_PORT", "29500"},
                 {"TORCHELASTIC_RUN_ID", "none"},
                 {"PENSTOCK_NODES", "2"}};
  const auto launch = read();
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 4);
  EXPECT_EQ(launch->local_size, 2);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->emulated_node, 1u);
  EXPECT_EQ(launch->job, fmt::format("torch-{}-head:29500-none", ::getuid()));
  environment["LOCAL_WORLD_SIZE"] = "5";  // more than there are in all
  EXPECT_EQ(read()->local_size, 0);
}

TEST_F(LauncherTest, TorchrunsOfTwoHostsAreTwoJobs) {
  environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  EXPECT_EQ(read()->job, fmt::format("user-{}", ::getuid()));  // nothing names the job
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  environment["MASTER_PORT"] = "29500";
  for (const char* loopback : {"127.0.0.1", "localhost", "::1"}) {
    environment["MASTER_ADDR"] = loopback;
    EXPECT_EQ(read()->job, fmt::format("torch-{}-{}:29500-", ::getuid(), host));
  }
}

TEST_F(LauncherTest, MpiexecInsideTorchrunTellsRankAndSize) {
  environment = {{"PMI_RANK", "3"},    {"PMI_SIZE", "4"},   {"PENSTOCK_NODES", "2"},
                 {"RANK", "0"},        {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", "none"},
                 {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  ancestors = {command({"/opt/mpich/bin/hydra_pmi_proxy", "--control-port", "head:40123"}),
               command({"mpiexec", "-n", "4", "app"}),
               command({"python3", "/usr/bin/torchrun", "x"})};
  EXPECT_EQ(read()->rank, 3);
  EXPECT_EQ(read()->size, 4);
  EXPECT_EQ(read()->emulated_node, 1u);
  EXPECT_EQ(read()->job, "hydra-head:40123");
  // The other way round: mpiexec started torchrun.
  ancestors = {command({"python3", "-m", "torch.distributed.run", "x"}),
               command({"/opt/mpich/bin/hydra_pmi_proxy", "--control-port", "head:40123"})};
  EXPECT_EQ(read()->rank, 0);
  EXPECT_EQ(read()->size, 1);
  // Without traces among the ancestors the variable decides; an empty one is not set.
  ancestors = {};
  EXPECT_EQ(read()->rank, 0);
  environment["TORCHELASTIC_RUN_ID"] = "";
  EXPECT_EQ(read()->rank, 3);
}

TEST_F(LauncherTest, MpisVariablesWinOverTorchruns) {
  environment = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"RANK", "3"}, {"WORLD_SIZE", "4"}};
  EXPECT_EQ(read()->rank, 1);
  EXPECT_EQ(read()->size, 2);
}

TEST_F(LauncherTest, TorchrunWinsOverWhatStartedIt) {
  environment = {{"SLURM_JOB_ID", "5"},          {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"},
                 {"SLURM_NTASKS", "2"},          {"RANK", "7"},          {"WORLD_SIZE", "8"},
                 {"TORCHELASTIC_RUN_ID", "none"}};
  EXPECT_EQ(read()->rank, 7);
  EXPECT_EQ(read()->size, 8);
  EXPECT_EQ(read()->job, "slurm-5.0");
}

TEST_F(LauncherTest, ARankWithoutItsWorldIsNotTorchruns) {
  environment = {{"RANK", "3"}};
  EXPECT_EQ(read()->rank, -1);
  environment["WORLD_SIZE"] = "3";  // none of three
  EXPECT_EQ(read()->rank, -1);
  EXPECT_THAT(read()->job, testing::StartsWith("user-"));
}

TEST_F(LauncherTest, GivenJobWins) {
  environment = {{"PENSTOCK_JOB", "mine"}, {"PMIX_NAMESPACE", "x@1"}};
  EXPECT_EQ(read()->job, "mine");
}

TEST_F(LauncherTest, NodesAreDealtInBlocks) {
  environment = {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}, {"PENSTOCK_NODES", "2"}};
  EXPECT_EQ(read()->emulated_node, 1u);
  environment["PMI_RANK"] = "2";
  EXPECT_EQ(read()->emulated_node, 0u);
}

TEST_F(LauncherTest, NodesAreDealtLikeMpichsCliques) {
  environment = {{"PMI_RANK", "3"},
                 {"PMI_SIZE", "4"},
                 {"PENSTOCK_NODES", "2"},
                 {"MPIR_CVAR_NUM_CLIQUES", "2"}};
  EXPECT_EQ(read()->emulated_node, 1u);
  environment["PMI_RANK"] = "2";
  EXPECT_EQ(read()->emulated_node, 0u);  // round robin
  environment["MPIR_CVAR_CLIQUES_BY_BLOCK"] = "1";
  EXPECT_EQ(read()->emulated_node, 1u);
}

TEST_F(LauncherTest, OwnNodeWins) {
  environment = {{"PENSTOCK_NODE", "7"}, {"PENSTOCK_NODES", "2"}};
  EXPECT_EQ(read()->emulated_node, 7u);
}

TEST_F(LauncherTest, ErrorsNameVariableAndValue) {
  environment = {{"PENSTOCK_NODE", "seven"}};
  auto launch = read();
  ASSERT_FALSE(launch);
  EXPECT_NE(launch.error().message.find("PENSTOCK_NODE='seven'"), std::string::npos);
  environment = {{"PENSTOCK_NODES", "2"}};
  launch = read();
  ASSERT_FALSE(launch);
  EXPECT_NE(launch.error().message.find("PENSTOCK_NODE "), std::string::npos);
}

TEST_F(LauncherTest, RanksStartedAreThoseOfTheNearestMpiexec) {
  environment = {{"SLURM_NTASKS", "8"}};
  EXPECT_EQ(ranks_started(sources()), 0);
  environment["PMI_SIZE"] = "4";
  EXPECT_EQ(ranks_started(sources()), 4);
  environment["OMPI_COMM_WORLD_SIZE"] = "1";  // an mpiexec within one of the four
  EXPECT_EQ(ranks_started(sources()), 1);
}

TEST(ProcessSources, FindOwnAncestors) {
  const LaunchSources sources = process_sources();
  EXPECT_FALSE(sources.ancestor_command(0).empty());
  EXPECT_FALSE(sources.ancestor_command(1).empty());
  EXPECT_TRUE(sources.ancestor_command(1000).empty());
}

}  // namespace
}  // namespace penstock::plugin
