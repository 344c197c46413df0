"""torchvision, timm and diffusers: pictures of 32×32."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.libraries.table import Built, program, training


def classified(model: nn.Module, side: int = 32, batch: int = 2, classes: int = 5) -> Built:
    images, labels = torch.randn(batch, 3, side, side), torch.randint(0, classes, (batch,))

    def loss() -> torch.Tensor:
        told: Any = model(images)
        return functional.cross_entropy(getattr(told, "logits", told), labels)

    return training(model.train(), loss)


@program("torchvision")
def resnet() -> Built:
    from torchvision.models import resnet18

    return classified(resnet18(num_classes=5))


@program("torchvision")
def mobilenet() -> Built:
    from torchvision.models import mobilenet_v3_small

    return classified(mobilenet_v3_small(num_classes=5))


@program("torchvision")
def efficientnet() -> Built:
    from torchvision.models.efficientnet import EfficientNet, MBConvConfig

    blocks = [MBConvConfig(1, 3, 1, 16, 8, 1, 1, 1), MBConvConfig(4, 3, 2, 8, 16, 2, 1, 1)]
    return classified(EfficientNet(blocks, dropout=0.2, num_classes=5, last_channel=32))


@program("torchvision")
def densenet() -> Built:
    from torchvision.models import DenseNet

    return classified(DenseNet(8, (2, 2), 16, num_classes=5, memory_efficient=True))


@program("torchvision")
def swin() -> Built:
    from torchvision.models import SwinTransformer

    return classified(SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=5))


@program("torchvision")
def segmented() -> Built:
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3).train()
    images, labels = torch.randn(2, 3, 64, 64), torch.randint(0, 3, (2, 64, 64))
    return training(model, lambda: functional.cross_entropy(model(images)["out"], labels))


@program("torchvision")
def detected() -> Built:
    """Boxes: anchors, matching and sampling inside the model, losses as a dict."""
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.ops import MultiScaleRoIAlign

    backbone: Any = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
    backbone.out_channels = 8
    model = FasterRCNN(
        backbone,
        num_classes=3,
        rpn_anchor_generator=AnchorGenerator(((16, 32),), ((0.5, 1.0, 2.0),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 3, 2),
        **{"min_size": 64, "max_size": 64, "box_detections_per_img": 10, "rpn_pre_nms_top_n_train": 50},
    ).train()
    images = [torch.rand(3, 64, 64), torch.rand(3, 64, 48)]
    boxes = torch.tensor([[4.0, 4.0, 30.0, 30.0], [10.0, 20.0, 40.0, 50.0]])
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in images]
    return training(model, lambda: sum(model(images, targets).values()))


@program("torchvision")
def filmed() -> Built:
    from torchvision.models.video import r3d_18

    model = r3d_18(num_classes=5).train()
    clips, labels = torch.randn(2, 3, 4, 16, 16), torch.tensor([0, 3])
    return training(model, lambda: functional.cross_entropy(model(clips), labels), steps=2)


def of_timm(name: str, **options: Any) -> Built:
    import timm

    return classified(timm.create_model(name, pretrained=False, num_classes=5, **options))


@program("timm")
def vit_tiny() -> Built:
    return of_timm("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, drop_path_rate=0.2)


@program("timm")
def convnext() -> Built:
    return of_timm("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 16, 16), drop_path_rate=0.2)


@program("timm")
def mixer() -> Built:
    return of_timm("mixer_s32_224", img_size=32)


@program("timm")
def efficientnet_lite() -> Built:
    return of_timm("tf_efficientnet_lite0")


@program("timm")
def swin_v2() -> Built:
    return of_timm("swinv2_tiny_window8_256", img_size=32, window_size=4, embed_dim=16, depths=(1, 1), num_heads=(2, 2))


@program("timm")
def averaged() -> Built:
    """timm's own training parts: mixed labels, a schedule, an average of the weights."""
    import timm
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler
    from timm.utils import ModelEmaV3

    model = timm.create_model("resnet10t", num_classes=5)
    average, mix, criterion = ModelEmaV3(model, decay=0.9), Mixup(0.8, num_classes=5), SoftTargetCrossEntropy()
    optimizer = create_optimizer_v2(model, "lamb", lr=1e-2, weight_decay=1e-2)
    schedule = CosineLRScheduler(optimizer, t_initial=3, warmup_t=1, warmup_lr_init=1e-3)
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(0, 5, (4,))

    def run() -> Any:
        for step in range(3):
            mixed, soft = mix(images.clone(), labels)
            loss = criterion(model(mixed), soft)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            average.update(model, step=step)
            schedule.step(step)
        return loss.detach(), average.module

    return model, run


@program("diffusers")
def denoised() -> Built:
    from diffusers import DDPMScheduler, UNet2DModel

    model = UNet2DModel(
        **{"sample_size": 16, "block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4},
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    )
    schedule, images = DDPMScheduler(num_train_timesteps=50), torch.randn(2, 3, 16, 16)

    def loss() -> torch.Tensor:
        noise = torch.randn_like(images)
        times = torch.randint(0, 50, (2,))
        noisy = schedule.add_noise(images, noise, times)
        return functional.mse_loss(model(noisy, times).sample, noise)

    return training(model, loss)


@program("diffusers")
def autoencoder() -> Built:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        **{"block_out_channels": (8, 16), "norm_num_groups": 4, "latent_channels": 4},
    )
    images = torch.randn(2, 3, 16, 16)

    def loss() -> torch.Tensor:
        latent = model.encode(images).latent_dist
        return functional.mse_loss(model.decode(latent.sample()).sample, images) + 1e-3 * latent.kl().mean()

    return training(model, loss)


@program("diffusers")
def sampled() -> Built:
    """A pipeline draws a picture."""
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    model = UNet2DModel(
        **{"sample_size": 8, "block_out_channels": (8, 8), "layers_per_block": 1, "norm_num_groups": 4},
        down_block_types=("DownBlock2D",) * 2,
        up_block_types=("UpBlock2D",) * 2,
    )
    pipeline = DDIMPipeline(model, DDIMScheduler(num_train_timesteps=20))
    pipeline.set_progress_bar_config(disable=True)
    return model, lambda: pipeline(batch_size=1, num_inference_steps=3, output_type="np").images
