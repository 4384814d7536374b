from torch_scripts import TorchScript


class Program(TorchScript):
    title, script = "torch pipelining", "torch_pipeline.py"
    case = "one stage a rank, 1F1B over 8 micro-batches, 4 steps; the losses"
    quick = True
