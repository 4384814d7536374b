from torch_scripts import TorchScript


class Program(TorchScript):
    title, script = "torch FSDP2 and DCP", "torch_fsdp2.py"
    case = "fully_shard, 6 steps; distributed.checkpoint saves and loads after three; the losses"
    quick = True

    def arguments(self, run):
        return [run.folder / "state"]
