from torch_scripts import TorchScript


class Program(TorchScript):
    title, script = "accelerate", "torch_accelerate.py"
    version = "1.15.0"
    case = "prepare, gradient accumulation, gather on the CPU; the losses"
    note = 'Call `init_process_group("penstock")` before `Accelerator(cpu=True)`, which makes a group of gloo otherwise.'
    quick = True
