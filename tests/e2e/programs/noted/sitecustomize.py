"""Python runs this first: leaves the process's id in the folder that NOTED names."""

import os

open(os.path.join(os.environ["NOTED"], str(os.getpid())), "w").close()
