from torch_scripts import TorchScript


class Program(TorchScript):
    title, script = "torchrun's restarts", "torch_restart.py"
    case = "a rank ends itself in the middle, and the second attempt gives the sums of a run without a death"
    torchrun_options = ("--max-restarts", "1")
    note = "The group of the second attempt needs no new pool: a temporary one goes with the process that made it."
