from torch_scripts import TorchScript


class Program(TorchScript):
    title, script = "torch DDP", "torch_ddp.py"
    case = "DistributedDataParallel with many buckets, 8 steps of Adam; the losses"
    quick = True
