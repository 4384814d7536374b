"""Lightning's Trainer with DDPStrategy over the back end that BACKEND names."""

import common
import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 2))
        self.losses = []

    def training_step(self, batch, _):
        loss = (self.layers(batch[0]) - batch[0][:, :2]).square().mean()
        self.log("loss", loss, on_epoch=True, sync_dist=True)
        self.losses.append(self.all_gather(loss.detach()).mean().item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(6)
data = torch.randn(96, 10, generator=torch.Generator().manual_seed(6))
module = Module()
trainer = lightning.Trainer(accelerator="cpu", devices=common.RANKS, strategy=DDPStrategy(process_group_backend=common.BACKEND), max_epochs=2,
                            logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(module, DataLoader(TensorDataset(data), batch_size=8))
common.say(losses=module.losses, mean=float(trainer.callback_metrics["loss_epoch"]))
