#include "program_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "base/clock.hpp"

namespace penstock::tools {
namespace {

constexpr std::uint64_t timeout_ns = 10'000'000'000;
constexpr std::size_t max_bytes = 64 * 1024;

std::string read_all(int fd) {
  std::string text;
  const std::uint64_t end_ns = base::now_ns() + timeout_ns;
  while (text.size() < max_bytes) {
    const std::uint64_t now_ns = base::now_ns();
    if (now_ns >= end_ns) break;
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>((end_ns - now_ns) / 1'000'000 + 1)) <= 0) break;
    char part[4096];
    const auto got = read(fd, part, sizeof part);
    if (got <= 0) break;
    text.append(part, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

std::string program_output(std::vector<std::string> command) {
  int ends[2];
  if (command.empty() || pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  posix_spawnattr_t group;  // of its own, with all that it starts
  posix_spawnattr_init(&group);
  posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  const int failed =
      posix_spawn(&child, arguments.front(), &actions, &group, arguments.data(), environ);
  posix_spawnattr_destroy(&group);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  if (failed == 0) {
    text = read_all(ends[0]);
    kill(-child, SIGKILL);  // it may wait for input, or ignore what it was asked
    waitpid(child, nullptr, 0);
  }
  close(ends[0]);
  return text;
}

}  // namespace penstock::tools
