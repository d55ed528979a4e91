# SPDX-License-Identifier: Apache-2.0
"""Architectures of model zoos and tutorials, as their repositories write them, at a small size."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from workloads.brought.networks import BATCH, Trained, brought, floats, ids


class Chomp1d(nn.Module):
    """Cuts what a causal convolution adds at the end."""

    def __init__(self, chomp_size):
        super().__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        """X without its last positions."""
        return x[:, :, : -self.chomp_size].contiguous()


class TemporalBlock(nn.Module):
    """Two dilated causal convolutions with weight norm, beside a shortcut (Bai et al., 2018)."""

    def __init__(self, n_inputs, n_outputs, kernel_size, dilation, dropout=0.0):
        super().__init__()
        padding = (kernel_size - 1) * dilation
        self.net = nn.Sequential(
            weight_norm(
                nn.Conv1d(n_inputs, n_outputs, kernel_size, padding=padding, dilation=dilation)
            ),
            *(Chomp1d(padding), nn.ReLU(), nn.Dropout(dropout)),
            weight_norm(
                nn.Conv1d(n_outputs, n_outputs, kernel_size, padding=padding, dilation=dilation)
            ),
            *(Chomp1d(padding), nn.ReLU(), nn.Dropout(dropout)),
        )
        self.downsample = nn.Conv1d(n_inputs, n_outputs, 1) if n_inputs != n_outputs else None
        self.relu = nn.ReLU()

    def forward(self, x):
        """The block's output."""
        out = self.net(x)
        res = x if self.downsample is None else self.downsample(x)
        return self.relu(out + res)


@brought("tcn", floats(3, 12), ids(5))
class TCN(nn.Module):
    """Temporal blocks with doubled dilations; the last position is classified."""

    def __init__(self):
        super().__init__()
        blocks = [TemporalBlock(3 if i == 0 else 6, 6, 3, 2**i) for i in range(2)]
        self.tcn, self.linear = nn.Sequential(*blocks), nn.Linear(6, 5)

    def forward(self, x, y):
        """The loss, and the logits."""
        o = self.linear(self.tcn(x)[:, :, -1])
        return F.cross_entropy(o, y), o


class DoubleConv(nn.Module):
    """(convolution => batch norm => ReLU) * 2."""

    def __init__(self, i, o):
        super().__init__()
        self.double_conv = nn.Sequential(
            *(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)),
            *(nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)),
        )

    def forward(self, x):
        """The block's output."""
        return self.double_conv(x)


class Up(nn.Module):
    """Upscaling, padding to the skip connection's size, and two convolutions."""

    def __init__(self, i, o):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv = DoubleConv(i, o)

    def forward(self, x1, x2):
        """The block's output."""
        x1 = self.up(x1)
        dy, dx = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


def dice_loss(p, target, smooth=1.0):
    """1 - the Dice coefficient."""
    intersection = (p * target).sum(dim=(1, 2, 3))
    union = p.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return (1 - (2 * intersection + smooth) / (union + smooth)).mean()


@brought("u-net, bilinear", floats(1, 10, 10), ids(2, 1, 10, 10))
class UNet(nn.Module):
    """A U-Net of two levels, trained by cross-entropy and Dice."""

    def __init__(self):
        super().__init__()
        self.inc = DoubleConv(1, 4)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(8, 8))
        self.up1, self.up2 = Up(16, 4), Up(8, 4)
        self.outc = nn.Conv2d(4, 1, 1)

    def forward(self, x, mask):
        """The loss, and the logits of each pixel."""
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x = self.up1(self.down2(x2), x2)
        logits = self.outc(self.up2(x, x1))
        mask = mask.float()
        loss = F.binary_cross_entropy_with_logits(logits, mask)
        return loss + dice_loss(torch.sigmoid(logits), mask), logits


class SEBlock(nn.Module):
    """Squeeze and excitation (moskomule/senet.pytorch)."""

    def __init__(self, channel, reduction=4):
        super().__init__()
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(
            nn.Linear(channel, channel // reduction, bias=False),
            nn.ReLU(inplace=True),
            nn.Linear(channel // reduction, channel, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        """The channels, scaled."""
        b, c, _, _ = x.size()
        y = self.avg_pool(x).view(b, c)
        y = self.fc(y).view(b, c, 1, 1)
        return x * y.expand_as(x)


@brought("senet", floats(3, 8, 8), ids(5))
class SENet(nn.Module):
    """A residual block with squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.se, self.fc = SEBlock(8), nn.Linear(8, 5)

    def forward(self, x, y):
        """The loss, and the logits."""
        x = F.relu(self.bn1(self.conv1(x)))
        out = self.se(self.bn2(self.conv2(x)))
        out += x
        out = F.adaptive_avg_pool2d(F.relu(out), 1)
        logits = self.fc(torch.flatten(out, 1))
        return F.cross_entropy(logits, y), logits


class Skip(nn.Module):
    """A function beside the identity."""

    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        """The sum of both."""
        return self.fn(x) + x


def ConvMixer(dim, depth, kernel_size=5, patch_size=2, n_classes=5):
    """ConvMixer (Trockman and Kolter, 2022), as its repository defines it."""
    return nn.Sequential(
        nn.Conv2d(3, dim, kernel_size=patch_size, stride=patch_size),
        nn.GELU(),
        nn.BatchNorm2d(dim),
        *[
            nn.Sequential(
                Skip(
                    nn.Sequential(
                        nn.Conv2d(dim, dim, kernel_size, groups=dim, padding="same"),
                        nn.GELU(),
                        nn.BatchNorm2d(dim),
                    )
                ),
                nn.Conv2d(dim, dim, kernel_size=1),
                nn.GELU(),
                nn.BatchNorm2d(dim),
            )
            for _ in range(depth)
        ],
        nn.AdaptiveAvgPool2d((1, 1)),
        nn.Flatten(),
        nn.Linear(dim, n_classes),
    )


brought("convmixer", floats(3, 12, 12), ids(5))(
    lambda: Trained(ConvMixer(6, 2), nn.CrossEntropyLoss(label_smoothing=0.1))
)


class MlpBlock(nn.Module):
    """Two linear layers, of the last axis."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        """The block's output."""
        return self.fc2(F.gelu(self.fc1(x)))


class MixerBlock(nn.Module):
    """Mixes tokens, then channels (Tolstikhin et al., 2021)."""

    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.mlp_tokens, self.mlp_channels = MlpBlock(tokens, 8), MlpBlock(dim, 12)

    def forward(self, x):
        """The block's output."""
        x = x + self.mlp_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mlp_channels(self.norm2(x))


@brought("mlp-mixer", floats(3, 8, 8), ids(5))
class MlpMixer(nn.Module):
    """Patches, mixer blocks, the mean of all tokens."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 4, 4)
        self.blocks = nn.ModuleList([MixerBlock(4, 6) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(6, eps=1e-6), nn.Linear(6, 5)

    def forward(self, x, y):
        """The loss, and the logits."""
        x = self.stem(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x).mean(dim=1))
        return F.cross_entropy(logits, y), logits


@brought("vae, convolutional", floats(1, 8, 8))
class VAE(nn.Module):
    """A variational auto-encoder with transposed convolutions; the sum of both terms a sample."""

    def __init__(self, z=3):
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.LeakyReLU()),
            *(nn.Conv2d(4, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.LeakyReLU()),
        )
        self.fc_mu, self.fc_var = nn.Linear(32, z), nn.Linear(32, z)
        self.decoder_input = nn.Linear(z, 32)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
            *(nn.BatchNorm2d(4), nn.LeakyReLU()),
            nn.ConvTranspose2d(4, 1, 3, stride=2, padding=1, output_padding=1),
            nn.Tanh(),
        )

    def reparameterize(self, mu, logvar):
        """A sample of the code."""
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return eps * std + mu

    def forward(self, x):
        """The loss, and the reconstruction."""
        h = torch.flatten(self.encoder(x), start_dim=1)
        mu, log_var = self.fc_mu(h), self.fc_var(h)
        z = self.reparameterize(mu, log_var)
        recons = self.decoder(self.decoder_input(z).view(-1, 8, 2, 2))
        kld = torch.mean(-0.5 * torch.sum(1 + log_var - mu**2 - log_var.exp(), dim=1), dim=0)
        return F.mse_loss(recons, x) + 0.01 * kld, recons


@brought("siamese, triplet margin", floats(1, 8, 8), floats(1, 8, 8), floats(1, 8, 8))
class TripletNet(nn.Module):
    """One network for an anchor, a positive and a negative."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(
            *(nn.Conv2d(1, 4, 3), nn.PReLU(), nn.MaxPool2d(2, stride=2), nn.Flatten()),
            *(nn.Linear(36, 8), nn.PReLU(), nn.Linear(8, 4)),
        )
        self.loss = nn.TripletMarginLoss(margin=1.0, p=2)

    def get_embedding(self, x):
        """A point on the sphere."""
        return F.normalize(self.embed(x), p=2, dim=1)

    def forward(self, anchor, positive, negative):
        """The loss, and the anchor's embedding."""
        a, p, n = map(self.get_embedding, (anchor, positive, negative))
        return self.loss(a, p, n), a


def padded_ids():
    """Words, of which those behind a sentence's end are 0."""
    lengths = torch.tensor([6, 4, 3, 5])[:, None]
    return torch.where(torch.arange(6) < lengths, torch.randint(1, 9, (BATCH, 6)), 0)


@brought("gru tagger", padded_ids, ids(4, 6))
class Tagger(nn.Module):
    """A bidirectional GRU that tags words; padding is ignored."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 5, padding_idx=0)
        self.gru = nn.GRU(5, 4, batch_first=True, bidirectional=True)
        self.drop, self.fc = nn.Dropout(0.0), nn.Linear(8, 4)

    def forward(self, words, tags):
        """The loss, and each word's logits."""
        mask = words != 0
        out, _ = self.gru(self.embedding(words))
        out = self.drop(out) * mask.unsqueeze(-1)
        logits = self.fc(out)
        tags = tags.masked_fill(~mask, -100)
        return F.cross_entropy(logits.view(-1, 4), tags.view(-1), ignore_index=-100), logits


@brought("keyword attention rnn", floats(1, 12, 8), ids(5))
class AttRNN(nn.Module):
    """Convolutions over time, a recurrent layer, attention by its middle (de Andrade et al.)."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 4, (5, 1), padding=(2, 0)), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 1, (5, 1), padding=(2, 0)), nn.BatchNorm2d(1)
        self.lstm = nn.LSTM(8, 4, batch_first=True, bidirectional=True)
        self.query, self.fc = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 6), nn.ReLU())
        self.out = nn.Linear(6, 5)

    def forward(self, x, y):
        """The loss, and the logits."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x))).squeeze(1)
        x, _ = self.lstm(x)
        query = self.query(x[:, x.size(1) // 2])
        scores = torch.softmax(torch.bmm(query.unsqueeze(1), x.permute(0, 2, 1)), dim=-1)
        context = torch.bmm(scores, x).squeeze(1)
        logits = F.log_softmax(self.out(self.fc(context)), dim=-1)
        return F.nll_loss(logits, y), logits


class RepVGGBlock(nn.Module):
    """Branches of 3x3, 1x1 and identity, each with batch norm (Ding et al., 2021)."""

    def __init__(self, i, o, stride=1, groups=1):
        super().__init__()
        self.nonlinearity = nn.ReLU()
        self.rbr_identity = nn.BatchNorm2d(i) if o == i and stride == 1 else None
        self.rbr_dense = self.conv_bn(i, o, 3, stride, 1, groups)
        self.rbr_1x1 = self.conv_bn(i, o, 1, stride, 0, groups)

    def conv_bn(self, i, o, k, stride, padding, groups):
        """A convolution with batch norm, by name."""
        result = nn.Sequential()
        result.add_module("conv", nn.Conv2d(i, o, k, stride, padding, groups=groups, bias=False))
        result.add_module("bn", nn.BatchNorm2d(num_features=o))
        return result

    def forward(self, x):
        """The block's output."""
        id_out = 0 if self.rbr_identity is None else self.rbr_identity(x)
        return self.nonlinearity(self.rbr_dense(x) + self.rbr_1x1(x) + id_out)


@brought("repvgg", floats(3, 8, 8), ids(5))
class RepVGG(nn.Module):
    """Two blocks and a head."""

    def __init__(self):
        super().__init__()
        self.stages = nn.Sequential(RepVGGBlock(3, 6, 2), RepVGGBlock(6, 6, groups=2))
        self.gap, self.linear = nn.AdaptiveAvgPool2d(output_size=1), nn.Linear(6, 5)

    def forward(self, x, y):
        """The loss, and the logits."""
        out = self.gap(self.stages(x))
        out = self.linear(out.view(out.size(0), -1))
        return F.cross_entropy(out, y), out


class MBConv(nn.Module):
    """Expansion, depthwise convolution, squeeze and excitation, projection, with SiLU."""

    def __init__(self, i, o, expand, k, s):
        super().__init__()
        h = i * expand
        self.use_res = s == 1 and i == o
        self.expand = nn.Sequential(nn.Conv2d(i, h, 1, bias=False), nn.BatchNorm2d(h), nn.SiLU())
        self.depthwise = nn.Sequential(
            nn.Conv2d(h, h, k, s, k // 2, groups=h, bias=False), nn.BatchNorm2d(h), nn.SiLU()
        )
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            *(nn.Conv2d(h, 2, 1), nn.SiLU(), nn.Conv2d(2, h, 1), nn.Sigmoid()),
        )
        self.project = nn.Sequential(nn.Conv2d(h, o, 1, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        """The block's output."""
        y = self.depthwise(self.expand(x))
        y = self.project(y * self.se(y))
        return x + y if self.use_res else y


@brought("efficientnet", floats(3, 10, 10), ids(5))
class EfficientNet(nn.Module):
    """Two MBConv blocks between a stem and a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.SiLU()
        )
        self.blocks = nn.Sequential(MBConv(6, 6, 2, 3, 1), MBConv(6, 8, 2, 5, 2))
        self.classifier = nn.Sequential(nn.Dropout(0.0, inplace=True), nn.Linear(8, 5))

    def forward(self, x, y):
        """The loss, and the logits."""
        x = self.blocks(self.stem(x))
        logits = self.classifier(F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1))
        return F.cross_entropy(logits, y), logits


class Attention(nn.Module):
    """Attention as in timm and vit-pytorch: one layer for q, k and v."""

    def __init__(self, dim, heads):
        super().__init__()
        self.num_heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim)

    def forward(self, x):
        """The tokens that were attended to."""
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.num_heads, c // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        x = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj(x)


class VitBlock(nn.Module):
    """Attention and a perceptron, each behind a norm, scaled (LayerScale)."""

    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, 2)
        self.mlp = nn.Sequential(nn.Linear(dim, 12), nn.GELU(), nn.Linear(12, dim))
        self.gamma1, self.gamma2 = (nn.Parameter(0.1 * torch.ones(dim)) for _ in range(2))

    def forward(self, x):
        """The block's output."""
        x = x + self.gamma1 * self.attn(self.norm1(x))
        return x + self.gamma2 * self.mlp(self.norm2(x))


@brought("vit with class token", floats(3, 8, 8), ids(5))
class VisionTransformer(nn.Module):
    """Patches, a class token, positions, blocks; the token is classified."""

    def __init__(self, dim=8):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 4, 4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, 5, dim) * 0.02)
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        self.blocks = nn.Sequential(*[VitBlock(dim) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, 5)

    def forward(self, x, y):
        """The loss, and the logits."""
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        logits = self.head(self.norm(self.blocks(x))[:, 0])
        return F.cross_entropy(logits, y), logits


@brought("tied transposed convolutions", floats(1, 8, 8))
class TiedAutoencoder(nn.Module):
    """An auto-encoder whose decoder reads slices of one weight, as its encoder does."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4, 3, 3) * 0.2)
        self.bias = nn.ParameterList([nn.Parameter(torch.zeros(n)) for n in (4, 6, 4, 1)])

    def forward(self, x):
        """The loss, and the reconstruction."""
        first, second = self.weight[:4, :1], self.weight
        h = F.relu(F.conv2d(x, first, self.bias[0], stride=2, padding=1))
        h = F.relu(F.conv2d(h, second, self.bias[1], stride=2, padding=1))
        h = F.relu(F.conv_transpose2d(h, second, self.bias[2], 2, 1, output_padding=1))
        y = torch.sigmoid(F.conv_transpose2d(h, first, self.bias[3], 2, 1, output_padding=1))
        return F.mse_loss(y, x), y


class TNet(nn.Module):
    """The learned transform of PointNet (Qi et al., 2017), near the identity."""

    def __init__(self, k):
        super().__init__()
        self.k = k
        self.conv1, self.conv2 = nn.Conv1d(k, 6, 1), nn.Conv1d(6, 8, 1)
        self.fc1, self.fc2 = nn.Linear(8, 6), nn.Linear(6, k * k)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(6), nn.BatchNorm1d(8), nn.BatchNorm1d(6)

    def forward(self, x):
        """Matrices [N, k, k]."""
        b = x.size(0)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = torch.max(x, 2, keepdim=True)[0].view(-1, 8)
        x = self.fc2(F.relu(self.bn3(self.fc1(x))))
        iden = torch.eye(self.k, requires_grad=False).flatten().view(1, -1).repeat(b, 1)
        return (x + iden).view(-1, self.k, self.k)


@brought("pointnet", floats(3, 10), ids(5))
class PointNet(nn.Module):
    """Points, turned by a learned matrix, and its penalty for not being orthogonal."""

    def __init__(self):
        super().__init__()
        self.stn, self.conv1, self.bn1 = TNet(3), nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x, y):
        """The loss, and the logits."""
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = torch.max(F.relu(self.bn1(self.conv1(x))), 2)[0]
        logits = F.log_softmax(self.fc(x), dim=1)
        eye = torch.eye(3)[None, :, :]
        penalty = torch.norm(torch.bmm(trans, trans.transpose(2, 1)) - eye, dim=(1, 2))
        return F.nll_loss(logits, y) + 0.001 * torch.mean(penalty), logits


@brought("wavenet", ids(8, 12))
class WaveNet(nn.Module):
    """Gated dilated convolutions with residual and skip connections; predicts the next sample."""

    def __init__(self, channels=6):
        super().__init__()
        self.embed = nn.Embedding(8, channels)
        self.dilations = [1, 2, 4]
        self.dilated = nn.ModuleList(
            nn.Conv1d(channels, 2 * channels, 2, dilation=d) for d in self.dilations
        )
        self.residual = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in self.dilations)
        self.skip = nn.ModuleList(nn.Conv1d(channels, 4, 1) for _ in self.dilations)
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(4, 8, 1))

    def forward(self, wave):
        """The loss, and the logits of each position."""
        x, skips = self.embed(wave).permute(0, 2, 1), 0
        for d, dilated, residual, skip in zip(
            self.dilations, self.dilated, self.residual, self.skip, strict=True
        ):
            h = dilated(F.pad(x, (d, 0)))
            a, b = torch.chunk(h, 2, dim=1)
            h = torch.tanh(a) * torch.sigmoid(b)
            skips = skips + skip(h)
            x = (residual(h) + x) * math.sqrt(0.5)
        logits = self.end(skips)
        return F.cross_entropy(logits[:, :, :-1], wave[:, 1:]), logits
