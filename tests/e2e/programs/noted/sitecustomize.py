"""Python runs this first: leaves the process's id in the folder that NOTED names."""

import os

if "NOTED" in os.environ:  # not of the process that forks those of all tests
    open(os.path.join(os.environ["NOTED"], str(os.getpid())), "w").close()
