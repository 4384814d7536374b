from torch_scripts import TorchScript


class Program(TorchScript):
    title, script, version = "DeepSpeed", "deepspeed_zero.py", ""
    pypi = ("deepspeed==0.19.8",)
    case = "ZeRO of stage 2 on the CPU, 5 steps of Adam; the losses"
    environment = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": 0}
