#include "watch.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "command.hpp"
#include "terminal.hpp"

namespace penstock::tools {
namespace {

/// While this lives, these signals are read one by one instead of ending the process.
class TakenSignals {
 public:
  TakenSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH}) sigaddset(&set_, signal);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~TakenSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  TakenSignals(const TakenSignals&) = delete;
  TakenSignals& operator=(const TakenSignals&) = delete;

  /// Returns the signal that arrives within `seconds`, or 0.
  int wait(double seconds) const {
    timespec time{};
    time.tv_sec = static_cast<time_t>(seconds);
    time.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
    const int signal = sigtimedwait(&set_, nullptr, &time);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_{}, before_{};
};

/// A terminal's alternate screen, without its cursor; does nothing without a terminal.
class Screen {
 public:
  explicit Screen(bool wanted) : is_there_(wanted && ::isatty(STDOUT_FILENO) == 1) { enter(); }
  ~Screen() { leave(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool is_there() const { return is_there_; }
  void enter() const { say("\x1b[?1049h\x1b[?25l"); }
  void leave() const { say("\x1b[?25h\x1b[?1049l"); }
  /// Overwrites the old text, so that nothing flickers; omits what does not fit.
  void show(std::string_view text) const {
    const TerminalSize size = terminal_size(stdout);
    std::string out = "\x1b[H";
    for (std::size_t row = 0; row < size.rows && !text.empty(); ++row) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      if (row > 0) out += "\r\n";
      out += cut_to(text.substr(0, end), size.columns) + "\x1b[K";
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    say(out + "\x1b[J");
  }

 private:
  void say(std::string_view text) const {
    if (!is_there_) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  bool is_there_;
};

/// Stops the process as the signal would have done by default, on the ordinary screen meanwhile.
void stop(const Screen& screen) {
  screen.leave();
  ::raise(SIGSTOP);
  screen.enter();
}

}  // namespace

int watch(const WatchOptions& options, const std::function<std::string(const Rest&)>& frame) {
  const TakenSignals signals;
  const Screen screen(!options.lines_only);
  int ended_by = 0;
  const auto rest = [&](double seconds) {
    if (ended_by != 0) return;
    const int signal = signals.wait(seconds);
    if (signal == SIGTSTP) stop(screen);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) ended_by = signal;
  };
  for (bool first = true; ended_by == 0; first = false) {
    const std::string text = frame(rest);
    if (ended_by != 0) break;
    if (screen.is_there()) {
      screen.show(text);
    } else {
      fmt::print("{}{}", first || options.lines_only ? "" : "\n", text);
      std::fflush(stdout);
    }
    if (std::ferror(stdout) != 0) return exit_error;
    rest(options.seconds);
  }
  return ended_by == SIGINT ? exit_ok : 128 + ended_by;
}

}  // namespace penstock::tools
