from torch_scripts import TorchScript


class Program(TorchScript):
    title, script, version = "Lightning", "lightning_fit.py", ""
    pypi = ("lightning==2.6.6",)
    case = "Trainer with DDPStrategy under torchrun, two epochs, metrics in sync; the losses"
    note = 'Name the back end: `DDPStrategy(process_group_backend="penstock")`.'
