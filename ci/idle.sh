#!/bin/sh
# Runs a command on what others leave of the cores: ci/idle.sh COMMAND ...
# In a session of its own, whose share is the lowest too where the kernel divides the cores among sessions.
exec setsid -w sh -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$@"' idle "$@"
