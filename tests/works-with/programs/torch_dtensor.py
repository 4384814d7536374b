from torch_scripts import TorchScript


class Program(TorchScript):
    title, script = "torch DTensor", "torch_dtensor.py"
    case = "sharded products, softmax and redistribution, and tensor parallelism; values and gradients"
    quick = True
