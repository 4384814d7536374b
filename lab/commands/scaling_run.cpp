#include "scaling_run.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "locations.hpp"
#include "scaling_traces.hpp"

namespace penstock::tools {

namespace {

constexpr std::uint64_t longest_ns = 3'600'000'000'000;

/// One replay under way: smpirun, a script, and its children form a process group.
class Running {
 public:
  Running(std::string folder, std::size_t number)
      : prefix_(folder + "/run-" + std::to_string(number)), folder_(std::move(folder)) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (group_ <= 0) return;
    kill(-group_, SIGKILL);
    waitpid(group_, nullptr, 0);
  }

  Result<void> start(const std::string& smpirun, const Replay& what) {
    std::string hosts;
    for (std::size_t rank = 0; rank < what.ranks; ++rank)
      hosts += fmt::format("n{}\n", rank * what.nodes / what.ranks);
    PENSTOCK_TRY(write_file(prefix_ + ".hosts", hosts));
    PENSTOCK_TRY(write_file(prefix_ + ".xml", what.platform));
    std::vector<std::string> words = {
        smpirun,          "-np",       std::to_string(what.ranks), "-platform",
        prefix_ + ".xml", "-hostfile", prefix_ + ".hosts",         "-replay",
        what.traces};
    begun_ns_ = base::now_ns();
    traces_ = what.traces;
    return spawn(words);
  }
  /// Whether it has ended. Errors: deadline.
  Result<bool> ended() {
    if (waitpid(group_, &status_, WNOHANG) == group_) {
      group_ = 0;
      return true;
    }
    if (base::now_ns() - begun_ns_ < longest_ns) return false;
    return fail(ErrorCode::deadline, "SimGrid has not replayed {} within {} s", traces_,
                longest_ns / 1'000'000'000);
  }
  Result<double> seconds() const {
    std::ifstream file(prefix_ + ".out");
    const std::string said((std::istreambuf_iterator<char>(file)), {});
    const std::string before = "Simulation time ";
    const std::size_t at = said.find(before);
    if (status_ == 0 && at != std::string::npos)
      return std::strtod(said.c_str() + at + before.size(), nullptr);
    return fail(ErrorCode::unavailable, "SimGrid has not replayed {}: {}", traces_,
                base::printable(said.substr(said.size() > 600 ? said.size() - 600 : 0)));
  }

 private:
  /// Starts it with its temporary files in our folder, and with no signal held back.
  Result<void> spawn(std::vector<std::string>& words) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::string temporary = "TMPDIR=" + folder_;
    std::vector<char*> variables = {temporary.data()};
    for (char** each = environ; *each != nullptr; ++each)
      if (std::strncmp(*each, "TMPDIR=", 7) != 0) variables.push_back(*each);
    variables.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, (prefix_ + ".out").c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    const int failed =
        posix_spawn(&group_, arguments[0], &files, &attributes, arguments.data(), variables.data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (failed == 0) return {};
    group_ = 0;
    return fail(ErrorCode::unavailable, "cannot start {}: {}", words[0], std::strerror(failed));
  }

  const std::string prefix_, folder_;
  std::string traces_;
  pid_t group_ = 0;
  int status_ = -1;
  std::uint64_t begun_ns_ = 0;
};

}  // namespace

Result<std::string> simgrid_version() {
  const std::string smpirun = find_on_path("smpirun");
  if (smpirun.empty())
    return fail(
        ErrorCode::not_found,
        "no smpirun is on the PATH, and the study of scaling needs SimGrid: apt install "
        "libsimgrid-dev, or ci/install.sh scaling; 'penstock model collectives' needs none");
  std::string said;
  if (std::FILE* const pipe = ::popen((base::shell_quote(smpirun) + " -version 2>&1").c_str(), "r");
      pipe != nullptr) {
    char part[4096];
    for (std::size_t got; (got = std::fread(part, 1, sizeof part, pipe)) > 0;)
      said.append(part, got);
    ::pclose(pipe);
  }
  const std::size_t at = said.find("version ");
  std::string version = at == std::string::npos ? "" : said.substr(at + 8);
  version = version.substr(0, version.find_first_not_of("0123456789."));
  return version.empty() ? "of unknown version" : version;
}

Result<std::vector<double>> replay_all(const std::string& folder, const std::vector<Replay>& all,
                                       const bench::HeldSignals& signals,
                                       const std::function<void()>& done) {
  const std::string smpirun = find_on_path("smpirun");
  const std::size_t most = std::max<std::size_t>(bench::allowed_cpus().size(), 1);
  std::vector<double> seconds(all.size());
  std::vector<std::pair<std::size_t, std::unique_ptr<Running>>> running;
  for (std::size_t next = 0; next < all.size() || !running.empty();) {
    for (; running.size() < most && next < all.size(); ++next) {
      running.emplace_back(next, std::make_unique<Running>(folder, next));
      PENSTOCK_TRY(running.back().second->start(smpirun, all[next]));
    }
    const int signal = signals.wait(100'000'000);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP)
      return fail(ErrorCode::unavailable, "interrupted by signal {}", signal);
    for (auto each = running.begin(); each != running.end();) {
      if (!PENSTOCK_TRY(each->second->ended())) {
        ++each;
        continue;
      }
      seconds[each->first] = PENSTOCK_TRY(each->second->seconds());
      each = running.erase(each);
      if (done) done();
    }
  }
  return seconds;
}

}  // namespace penstock::tools
