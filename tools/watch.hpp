// Shows something again and again, as `watch` and nvidia-smi do: on a terminal's alternate screen,
// else block after block.
#pragma once

#include <functional>
#include <string>

namespace penstock::tools {

struct WatchOptions {
  double seconds = 2;
  bool lines_only = false;  ///< each frame is a line for a program: no screen, nothing between
};

/// Prints what `frame` gives, at once and after each pause, until SIGINT (as by Ctrl-C), SIGTERM or
/// SIGHUP, or until standard output fails. The terminal is left as it was found, also while stopped
/// by Ctrl-Z. Gives the exit status: exit_ok after SIGINT, else 128 + signal; exit_error where the
/// output cannot be written. Blocks these signals in the calling thread: no other may be running.
int watch(const WatchOptions& options, const std::function<std::string()>& frame);

}  // namespace penstock::tools
