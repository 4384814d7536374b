// Shows something again and again, as `watch` and nvidia-smi do: on a terminal's alternate screen,
// else block after block.
#pragma once

#include <functional>
#include <string>

namespace penstock::tools {

struct WatchOptions {
  double seconds = 2;
  bool lines_only = false;  ///< each frame is one line for a program: no screen, nothing between
                            ///< frames
};

/// Sleeps for `seconds`, or until a signal ends the watch.
using Rest = std::function<void(double seconds)>;

/// Prints the result of `frame`, at once and after each pause, until SIGINT (as by Ctrl-C), SIGTERM
/// or SIGHUP, or until standard output fails. Leaves the terminal as it was, also while stopped by
/// Ctrl-Z. Returns the exit status: exit_ok after SIGINT, else 128 + signal; exit_error if the
/// output cannot be written. Blocks these signals in the calling thread: no other may be running,
/// and `frame` may sleep only by `rest`.
int watch(const WatchOptions& options, const std::function<std::string(const Rest& rest)>& frame);

}  // namespace penstock::tools
