"""Small networks as people write them in PyTorch, and the patterns that occur in them.

NETWORKS and PATTERNS list (name, function that returns a module, shapes of the inputs).
The first axis of each input is the batch. Integer inputs are given as ("int", shape, count).
"""
import torch
from torch import nn
from torch.nn import functional as F


class Fn(nn.Module):
    """A function of the inputs, with the parts that it uses as attributes."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def conv(i, o, k=3, **more):
    return nn.Conv2d(i, o, k, padding=more.pop("padding", k // 2), **more)


def conv_bn(i, o, k=3, act=nn.ReLU, **more):
    layers = [conv(i, o, k, bias=False, **more), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, act()) if act else nn.Sequential(*layers)


class Residual(nn.Module):
    def __init__(self, i, o, stride=1, act=nn.ReLU):
        super().__init__()
        self.conv1 = conv_bn(i, o, stride=stride, act=act)
        self.conv2 = conv_bn(o, o, act=None)
        self.skip = conv_bn(i, o, 1, None, stride=stride) if stride > 1 or i != o else nn.Identity()
        self.act = act()

    def forward(self, x):
        return self.act(self.conv2(self.conv1(x)) + self.skip(x))


class SqueezeExcite(nn.Module):
    def __init__(self, c, r=4, gate=nn.Hardsigmoid):
        super().__init__()
        self.fc1 = nn.Conv2d(c, c // r, 1)
        self.fc2 = nn.Conv2d(c // r, c, 1)
        self.gate = gate()

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.fc2(F.relu(self.fc1(s))))


class Inverted(nn.Module):
    """Inverted residual of MobileNetV2 and V3."""

    def __init__(self, i, o, expand=4, stride=1, act=nn.ReLU6, se=False, gate=nn.Hardsigmoid):
        super().__init__()
        m = i * expand
        parts = [conv_bn(i, m, 1, act), conv_bn(m, m, 3, act, groups=m, stride=stride)]
        if se:
            parts.append(SqueezeExcite(m, gate=gate))
        parts.append(conv_bn(m, o, 1, None))
        self.body = nn.Sequential(*parts)
        self.add = stride == 1 and i == o

    def forward(self, x):
        return x + self.body(x) if self.add else self.body(x)


class Head(nn.Module):
    def __init__(self, c, classes=5):
        super().__init__()
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def seq(*layers):
    return nn.Sequential(*layers)


def mlp():
    return seq(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5))


def lenet():
    return seq(conv(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3), nn.ReLU(), nn.MaxPool2d(2),
               nn.Flatten(), nn.Linear(8 * 4, 20), nn.ReLU(), nn.Linear(20, 5))


def alexnet():
    return seq(nn.Conv2d(3, 8, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2), conv(8, 12), nn.ReLU(),
               conv(12, 12), nn.ReLU(), nn.MaxPool2d(3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(),
               nn.Linear(12, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 5))


def vgg_bn():
    return seq(conv_bn(3, 8), conv_bn(8, 8), nn.MaxPool2d(2), conv_bn(8, 12), nn.MaxPool2d(2), nn.Flatten(),
               nn.Linear(12 * 16, 24, bias=False), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 5))


def resnet(act=nn.ReLU):
    return seq(conv_bn(3, 8, act=act), Residual(8, 8, act=act), Residual(8, 12, 2, act), Residual(12, 16, 2, act), Head(16))


class PreActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv(3, 8)
        self.bn1, self.conv1 = nn.BatchNorm2d(8), conv(8, 8)
        self.bn2, self.conv2 = nn.BatchNorm2d(8), conv(8, 8)
        self.bn, self.head = nn.BatchNorm2d(8), Head(8)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(x))))))
        return self.head(F.relu(self.bn(x)))


def mobilenet_v1():
    def dw(i, o, s=1):
        return seq(conv_bn(i, i, groups=i, stride=s), conv_bn(i, o, 1))
    return seq(conv_bn(3, 8, stride=2), dw(8, 12), dw(12, 16, 2), dw(16, 16), Head(16))


def mobilenet_v2():
    return seq(conv_bn(3, 8, stride=2, act=nn.ReLU6), Inverted(8, 8), Inverted(8, 12, stride=2), Inverted(12, 12),
               conv_bn(12, 24, 1, nn.ReLU6), Head(24))


def mobilenet_v3():
    return seq(conv_bn(3, 8, stride=2, act=nn.Hardswish), Inverted(8, 8, act=nn.ReLU, se=True),
               Inverted(8, 12, stride=2, act=nn.Hardswish, se=True), Inverted(12, 12, act=nn.Hardswish, se=True),
               conv_bn(12, 24, 1, nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 32), nn.Hardswish(),
               nn.Dropout(), nn.Linear(32, 5))


def efficientnet():
    return seq(conv_bn(3, 8, stride=2, act=nn.SiLU), Inverted(8, 8, act=nn.SiLU, se=True, gate=nn.Sigmoid),
               Inverted(8, 12, stride=2, act=nn.SiLU, se=True, gate=nn.Sigmoid), conv_bn(12, 24, 1, nn.SiLU), Head(24))


class Fire(nn.Module):
    def __init__(self, i, s, e):
        super().__init__()
        self.squeeze, self.e1, self.e3 = nn.Conv2d(i, s, 1), nn.Conv2d(s, e, 1), conv(s, e)

    def forward(self, x):
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.e1(x)), F.relu(self.e3(x))], 1)


def squeezenet():
    return seq(conv(3, 8, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(8, 4, 6), Fire(12, 4, 8),
               nn.Dropout(), nn.Conv2d(16, 5, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Dense(nn.Module):
    def __init__(self, i, growth=4):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(i), nn.Conv2d(i, 8, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(8), conv(8, growth, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(x))))))], 1)


def densenet():
    return seq(conv(3, 8, bias=False), Dense(8), Dense(12), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1, bias=False),
               nn.AvgPool2d(2), Dense(8), Dense(12), nn.BatchNorm2d(16), nn.ReLU(), Head(16))


class Inception(nn.Module):
    def __init__(self, i):
        super().__init__()
        self.a, self.b = conv_bn(i, 4, 1), seq(conv_bn(i, 4, 1), conv_bn(4, 6))
        self.c = seq(conv_bn(i, 2, 1), conv_bn(2, 4, 5))
        self.d = seq(nn.MaxPool2d(3, 1, 1), conv_bn(i, 4, 1))

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], 1)


def googlenet():
    return seq(conv_bn(3, 8, stride=2), Inception(8), nn.MaxPool2d(2), Inception(18), Head(18))


def shuffle(x, groups):
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


class Shuffle1(nn.Module):
    def __init__(self, c, groups=2):
        super().__init__()
        self.groups = groups
        self.a = conv_bn(c, c, 1, groups=groups)
        self.b = conv_bn(c, c, act=None, groups=c)
        self.c = conv_bn(c, c, 1, None, groups=groups)

    def forward(self, x):
        return F.relu(x + self.c(self.b(shuffle(self.a(x), self.groups))))


def shufflenet_v1():
    return seq(conv_bn(3, 8, stride=2), Shuffle1(8), Shuffle1(8), Head(8))


class Shuffle2(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c // 2
        self.body = seq(conv_bn(h, h, 1), conv_bn(h, h, act=None, groups=h), conv_bn(h, h, 1))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        return shuffle(torch.cat([a, self.body(b)], 1), 2)


class Shuffle2Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.a = seq(conv_bn(i, i, act=None, groups=i, stride=2), conv_bn(i, o // 2, 1))
        self.b = seq(conv_bn(i, o // 2, 1), conv_bn(o // 2, o // 2, act=None, groups=o // 2, stride=2), conv_bn(o // 2, o // 2, 1))

    def forward(self, x):
        return shuffle(torch.cat([self.a(x), self.b(x)], 1), 2)


def shufflenet_v2():
    return seq(conv_bn(3, 8, stride=2), Shuffle2Down(8, 12), Shuffle2(12), conv_bn(12, 16, 1), Head(16))


class Ghost(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.primary = conv_bn(i, o // 2, 1)
        self.cheap = conv_bn(o // 2, o // 2, groups=o // 2)

    def forward(self, x):
        a = self.primary(x)
        return torch.cat([a, self.cheap(a)], 1)


def ghostnet():
    return seq(conv_bn(3, 8, stride=2), Ghost(8, 12), Ghost(12, 16), Head(16))


class RepVGG(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b, self.c = conv_bn(c, c, act=None), conv_bn(c, c, 1, None), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(self.a(x) + self.b(x) + self.c(x))


def repvgg():
    return seq(conv_bn(3, 8, stride=2), RepVGG(8), RepVGG(8), Head(8))


class ConvMixerBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw = seq(conv(c, c, 5, groups=c), nn.GELU(), nn.BatchNorm2d(c))
        self.pw = seq(nn.Conv2d(c, c, 1), nn.GELU(), nn.BatchNorm2d(c))

    def forward(self, x):
        return self.pw(x + self.dw(x))


def convmixer():
    return seq(nn.Conv2d(3, 8, 2, 2), nn.GELU(), nn.BatchNorm2d(8), ConvMixerBlock(8), ConvMixerBlock(8), Head(8))


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw, self.norm = conv(c, c, 7, groups=c), nn.LayerNorm(c)
        self.fc1, self.fc2 = nn.Linear(c, 3 * c), nn.Linear(3 * c, c)
        self.gamma = nn.Parameter(torch.full((c,), 0.5))

    def forward(self, x):
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        y = self.gamma * self.fc2(F.gelu(self.fc1(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext():
    return seq(nn.Conv2d(3, 8, 2, 2), LayerNorm2d(8), ConvNextBlock(8), ConvNextBlock(8), nn.AdaptiveAvgPool2d(1),
               nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, 5))


class UNet(nn.Module):
    def __init__(self, up="transposed", width=6, classes=2):
        super().__init__()
        self.up, deep = up, width + 2
        self.d1, self.d2 = seq(conv_bn(1, width), conv_bn(width, width)), conv_bn(width, deep)
        if up == "transposed":
            self.enlarge = nn.ConvTranspose2d(deep, width, 2, stride=2)
        self.u1 = conv_bn(width + (width if up == "transposed" else deep), width)
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        if self.up == "transposed":
            b = self.enlarge(b)
        elif self.up == "nearest":
            b = F.interpolate(b, scale_factor=2, mode="nearest")
        else:
            b = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(self.u1(torch.cat([a, b], 1)))


class Segmenter(nn.Module):
    """DeepLab-like: dilated convolutions, a pooled branch, bilinear output."""

    def __init__(self):
        super().__init__()
        self.stem = conv_bn(3, 8, stride=2)
        self.a, self.b = conv_bn(8, 6, 1), conv_bn(8, 6, padding=2, dilation=2)
        self.out = nn.Conv2d(12, 3, 1)

    def forward(self, x):
        y = self.stem(x)
        y = self.out(torch.cat([self.a(y), self.b(y)], 1))
        return F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)


class Yolo(nn.Module):
    def __init__(self, anchors=2, classes=3):
        super().__init__()
        self.anchors, self.outputs = anchors, 5 + classes
        self.body = seq(conv_bn(3, 8, stride=2, act=nn.SiLU), conv_bn(8, 12, stride=2, act=nn.SiLU))
        self.head = nn.Conv2d(12, anchors * self.outputs, 1)

    def forward(self, x):
        y = self.head(self.body(x))
        n, _, h, w = y.shape
        y = y.view(n, self.anchors, self.outputs, h, w).permute(0, 1, 3, 4, 2)
        return y.reshape(n, -1, self.outputs)


class Detector(nn.Module):
    """Two outputs over a feature pyramid."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2 = conv_bn(3, 8, stride=2), conv_bn(8, 12, stride=2)
        self.l1, self.l2 = nn.Conv2d(8, 8, 1), nn.Conv2d(12, 8, 1)
        self.boxes, self.scores = conv(8, 4), conv(8, 3)

    def forward(self, x):
        a = self.c1(x)
        b = self.l2(self.c2(a))
        a = self.l1(a) + F.interpolate(b, scale_factor=2, mode="nearest")
        return self.boxes(a), torch.sigmoid(self.scores(a))


class Espcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = seq(conv(1, 8, 5), nn.Tanh(), conv(8, 6), nn.Tanh(), conv(6, 4))
        self.up = nn.PixelShuffle(2)

    def forward(self, x):
        return self.up(self.body(x))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = seq(conv(1, 6, stride=2), nn.ReLU(), conv(6, 8, stride=2), nn.ReLU())
        self.up = seq(nn.ConvTranspose2d(8, 6, 3, 2, 1, 1), nn.ReLU(), nn.ConvTranspose2d(6, 1, 4, 2, 1), nn.Sigmoid())

    def forward(self, x):
        return self.up(self.down(x))


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(10, 8 * 4 * 4)
        self.bn0 = nn.BatchNorm2d(8)
        self.up1, self.bn1 = nn.ConvTranspose2d(8, 6, 4, 2, 1, bias=False), nn.BatchNorm2d(6)
        self.up2 = nn.ConvTranspose2d(6, 1, 4, 2, 1)

    def forward(self, x):
        x = F.relu(self.bn0(self.fc(x).view(-1, 8, 4, 4)))
        return torch.tanh(self.up2(F.relu(self.bn1(self.up1(x)))))


class StyleTransfer(nn.Module):
    """Reflection pads, instance norms, residual blocks, nearest upsampling."""

    def __init__(self):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"), nn.InstanceNorm2d(8, affine=True)
        self.c2, self.n2 = nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"), nn.InstanceNorm2d(8, affine=True)
        self.c3 = nn.Conv2d(8, 3, 3, padding=1, padding_mode="replicate")

    def forward(self, x):
        x = F.relu(self.n1(self.c1(x)))
        x = x + self.n2(self.c2(x))
        return self.c3(F.interpolate(x, scale_factor=2, mode="nearest"))


class Chomp(nn.Module):
    def __init__(self, i, o, d):
        super().__init__()
        self.cut = 2 * d
        self.conv1 = nn.Conv1d(i, o, 3, padding=2 * d, dilation=d)
        self.conv2 = nn.Conv1d(o, o, 3, padding=2 * d, dilation=d)
        self.skip = nn.Conv1d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x):
        y = F.relu(self.conv1(x)[:, :, :-self.cut])
        y = F.relu(self.conv2(y)[:, :, :-self.cut])
        return F.relu(y + self.skip(x))


class Tcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = seq(Chomp(3, 8, 1), Chomp(8, 8, 2))
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.body(x)[:, :, -1])


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(1, 8, 1)
        self.f = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2 ** i) for i in range(3))
        self.g = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2 ** i) for i in range(3))
        self.r = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(3))
        self.out = nn.Conv1d(8, 4, 1)

    def forward(self, x):
        x = self.stem(x)
        for i, (f, g, r) in enumerate(zip(self.f, self.g, self.r)):
            p = F.pad(x, (2 ** i, 0))
            x = x + r(torch.tanh(f(p)) * torch.sigmoid(g(p)))
        return self.out(F.relu(x))


def cnn1d():
    return seq(nn.Conv1d(2, 8, 5, stride=2, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 12, 3, padding=1),
               nn.BatchNorm1d(12), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(12, 4))


def unet1d():
    def forward(m, x):
        a = F.relu(m.a(x))
        b = F.relu(m.b(F.max_pool1d(a, 2)))
        return m.out(torch.cat([a, m.up(b)], 1))
    return Fn(forward, a=nn.Conv1d(2, 6, 3, padding=1), b=nn.Conv1d(6, 8, 3, padding=1), up=nn.ConvTranspose1d(8, 6, 2, stride=2),
              out=nn.Conv1d(12, 3, 1))


class Recurrent(nn.Module):
    def __init__(self, kind, last=True, inputs=4, hidden=6, outputs=3, **more):
        super().__init__()
        self.rnn = kind(inputs, hidden, batch_first=True, **more)
        self.last = last
        self.fc = nn.Linear(hidden * (2 if more.get("bidirectional") else 1), outputs)

    def forward(self, x):
        y, _ = self.rnn(x)
        return self.fc(y[:, -1] if self.last else y)


class Crnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = seq(conv_bn(1, 6), nn.MaxPool2d(2), conv_bn(6, 8), nn.MaxPool2d((2, 1)))
        self.rnn = nn.GRU(8 * 2, 6, batch_first=True)
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        y = self.conv(x)
        n, c, h, w = y.shape
        y = y.permute(0, 3, 1, 2).reshape(n, w, c * h)
        return self.fc(self.rnn(y)[0])


class TextReader(nn.Module):
    """The usual CRNN: a column of features for each step, a linear layer over all of them."""

    def __init__(self):
        super().__init__()
        self.conv = seq(conv_bn(1, 6), nn.MaxPool2d(2, 2), conv_bn(6, 8), nn.MaxPool2d((2, 2), (2, 1), (0, 1)), nn.Conv2d(8, 8, 2), nn.ReLU())
        self.rnn = nn.LSTM(8, 5, bidirectional=True)
        self.fc = nn.Linear(10, 4)

    def forward(self, x):
        y = self.conv(x).squeeze(2).permute(2, 0, 1)
        y, _ = self.rnn(y)
        steps, n, features = y.size()
        return self.fc(y.view(steps * n, features)).view(steps, n, -1)


class Cells(nn.Module):
    """A loop over a cell that starts from zeros."""

    def __init__(self, cell):
        super().__init__()
        self.cell, self.fc = cell(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        zeros = torch.zeros(x.size(0), 6)
        state = (zeros, zeros) if isinstance(self.cell, nn.LSTMCell) else zeros
        for step in range(x.size(1)):
            state = self.cell(x[:, step], state)
        return self.fc(state[0] if isinstance(state, tuple) else state)


class OwnRecurrence(nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.h, self.o = nn.Linear(4, 6), nn.Linear(6, 6, bias=False), nn.Linear(6, 3)

    def forward(self, x):
        h, outputs = torch.zeros(x.shape[0], 6), []
        for step in range(x.shape[1]):
            h = torch.tanh(self.i(x[:, step]) + self.h(h))
            outputs.append(self.o(h))
        return torch.stack(outputs, dim=1)


class TemporalShift(nn.Module):
    """Moves some channels by a step, with zeros where nothing comes."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.fc = nn.Conv1d(6, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=1), nn.Linear(8, 4)

    def forward(self, x):
        x = F.relu(self.c1(x))
        a, b, c = x[:, :2], x[:, 2:4], x[:, 4:]
        a = torch.cat([a[:, :, 1:], torch.zeros_like(a[:, :, :1])], 2)
        b = torch.cat([torch.zeros_like(b[:, :, :1]), b[:, :, :-1]], 2)
        return self.fc(F.relu(self.c2(torch.cat([a, b, c], 1))).mean(-1))


class CoordConv(nn.Module):
    """Channels of coordinates beside those of the image."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = conv(5, 8), Head(8)
        line = torch.linspace(-1, 1, 8)
        self.register_buffer("grid", torch.stack(torch.meshgrid(line, line, indexing="ij"))[None])

    def forward(self, x):
        grid = self.grid.expand(x.size(0), -1, -1, -1)
        return self.head(F.relu(self.conv(torch.cat([x, grid], 1))))


class MixerBlock(nn.Module):
    def __init__(self, tokens, c):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.t1, self.t2 = nn.Linear(tokens, 8), nn.Linear(8, tokens)
        self.c1, self.c2 = nn.Linear(c, 12), nn.Linear(12, c)

    def forward(self, x):
        y = self.n1(x).transpose(1, 2)
        x = x + self.t2(F.gelu(self.t1(y))).transpose(1, 2)
        return x + self.c2(F.gelu(self.c1(self.n2(x))))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 8, 2, 2)
        self.block = MixerBlock(16, 8)
        self.norm, self.fc = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.fc(self.norm(self.block(x)).mean(1))


class GMlp(nn.Module):
    """Residual MLP with affine layers instead of norms (ResMLP)."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 8, 2, 2)
        self.a, self.b = nn.Parameter(torch.rand(8) + 0.5), nn.Parameter(torch.randn(8))
        self.t, self.c1, self.c2 = nn.Linear(16, 16), nn.Linear(8, 16), nn.Linear(16, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.t((x * self.a + self.b).transpose(1, 2)).transpose(1, 2)
        x = x + self.c2(F.relu(self.c1(x)))
        return self.fc(x.mean(1))


def siamese():
    body = seq(conv(1, 6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 16, 8))
    return Fn(lambda m, a, b: m.fc(torch.abs(m.body(a) - m.body(b))), body=body, fc=nn.Linear(8, 1))


def embedder():
    return Fn(lambda m, x: F.normalize(m.body(x), dim=1),
              body=seq(conv_bn(1, 6), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 8)))


def two_heads():
    return Fn(lambda m, x: (m.a(m.body(x)), m.b(m.body(x))), body=seq(nn.Flatten(), nn.Linear(64, 16), nn.ReLU()),
              a=nn.Linear(16, 5), b=nn.Linear(16, 1))


def two_inputs():
    return Fn(lambda m, x, f: m.fc(torch.cat([torch.flatten(m.c(x), 1), F.relu(m.g(f))], 1)),
              c=seq(conv(1, 4, stride=2), nn.ReLU()), g=nn.Linear(3, 6), fc=nn.Linear(4 * 16 + 6, 5))


def group_norm_net():
    return seq(conv(3, 8), nn.GroupNorm(2, 8), nn.SiLU(), conv(8, 8), nn.GroupNorm(4, 8), nn.SiLU(), Head(8))


class RmsNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(c) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rms_mlp():
    return Fn(lambda m, x: m.fc(m.n2(x + m.b(F.silu(m.a(m.n1(x)))))), n1=RmsNorm(16), a=nn.Linear(16, 24), b=nn.Linear(24, 16),
              n2=RmsNorm(16), fc=nn.Linear(16, 4))


def text_classifier():
    return Fn(lambda m, x: m.fc(m.e(x).mean(1)), e=nn.Embedding(20, 8), fc=nn.Linear(8, 3))


def text_cnn():
    return Fn(lambda m, x: m.fc(F.relu(m.c(m.e(x).transpose(1, 2))).amax(2)), e=nn.Embedding(20, 8), c=nn.Conv1d(8, 6, 3), fc=nn.Linear(6, 3))


def maxout():
    return Fn(lambda m, x: m.fc(torch.maximum(m.a(x), m.b(x))), a=nn.Linear(16, 12), b=nn.Linear(16, 12), fc=nn.Linear(12, 3))


def nin():
    return seq(conv(3, 8, 5), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.ReLU(), nn.MaxPool2d(3, 2, 1), conv(8, 8), nn.ReLU(),
               nn.Conv2d(8, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def zfnet_lrn():
    return seq(conv(3, 8, 5, stride=2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2), conv(8, 8), nn.ReLU(), Head(8))


class Csp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = conv_bn(c, c // 2, 1, nn.SiLU), conv_bn(c, c // 2, 1, nn.SiLU)
        self.m, self.out = conv_bn(c // 2, c // 2, act=nn.SiLU), conv_bn(c, c, 1, nn.SiLU)

    def forward(self, x):
        a = self.a(x)
        return self.out(torch.cat([a + self.m(a), self.b(x)], 1))


class Sppf(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = conv_bn(c, c // 2, 1, nn.SiLU), conv_bn(c * 2, c, 1, nn.SiLU)

    def forward(self, x):
        x = self.a(x)
        y = F.max_pool2d(x, 5, 1, 2)
        z = F.max_pool2d(y, 5, 1, 2)
        return self.b(torch.cat([x, y, z, F.max_pool2d(z, 5, 1, 2)], 1))


def csp_darknet():
    return seq(conv_bn(3, 8, stride=2, act=nn.SiLU), Csp(8), conv_bn(8, 12, stride=2, act=nn.SiLU), Sppf(12), Head(12))


def xception():
    def sep(i, o):
        return seq(conv(i, i, groups=i, bias=False), nn.Conv2d(i, o, 1, bias=False), nn.BatchNorm2d(o))
    return Fn(lambda m, x: m.head(m.b(F.max_pool2d(m.a(F.relu(m.stem(x))), 3, 2, 1)) + m.skip(m.stem(x))),
              stem=conv_bn(3, 8), a=seq(sep(8, 12), nn.ReLU()), b=sep(12, 12), skip=conv_bn(8, 12, 1, None, stride=2), head=Head(12))


def cbam():
    def forward(m, x):
        x = F.relu(m.c(x))
        a = m.fc(F.adaptive_avg_pool2d(x, 1).flatten(1)) + m.fc(F.adaptive_max_pool2d(x, 1).flatten(1))
        x = x * torch.sigmoid(a)[:, :, None, None]
        s = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return m.head(x * torch.sigmoid(m.s(s)))
    return Fn(forward, c=conv(3, 8), fc=seq(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8)), s=nn.Conv2d(2, 1, 3, padding=1), head=Head(8))


def normalized_input():
    def forward(m, x):
        return m.body((x - m.mean) / m.std)
    net = Fn(forward, body=seq(conv_bn(3, 8, stride=2), conv_bn(8, 8), Head(8)))
    net.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
    net.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
    return net


def keyword_net():
    return seq(nn.Conv2d(1, 8, (5, 3), stride=2, padding=(2, 1)), nn.BatchNorm2d(8), nn.ReLU(), conv_bn(8, 8, groups=8), conv_bn(8, 8, 1),
               nn.AvgPool2d((4, 4)), nn.Flatten(), nn.Linear(32, 4), nn.Softmax(1))


def prelu_net():
    return seq(conv(1, 6), nn.PReLU(6), nn.MaxPool2d(2), conv(6, 8), nn.PReLU(8), Head(8))


IMAGE, GRAY = [(3, 8, 8)], [(1, 8, 8)]
NETWORKS = [
    ("mlp", mlp, GRAY), ("lenet", lenet, [(1, 12, 12)]), ("alexnet", alexnet, [(3, 20, 20)]), ("vgg_bn", vgg_bn, [(3, 16, 16)]),
    ("nin", nin, IMAGE), ("zfnet_lrn", zfnet_lrn, [(3, 16, 16)]), ("resnet", resnet, IMAGE),
    ("resnet_leaky", lambda: resnet(nn.LeakyReLU), IMAGE), ("preactivation", PreActivation, IMAGE),
    ("mobilenet_v1", mobilenet_v1, IMAGE), ("mobilenet_v2", mobilenet_v2, IMAGE), ("mobilenet_v3", mobilenet_v3, IMAGE),
    ("efficientnet", efficientnet, IMAGE), ("squeezenet", squeezenet, [(3, 16, 16)]), ("densenet", densenet, IMAGE),
    ("googlenet", googlenet, IMAGE), ("xception", xception, IMAGE), ("shufflenet_v1", shufflenet_v1, IMAGE),
    ("shufflenet_v2", shufflenet_v2, IMAGE), ("ghostnet", ghostnet, IMAGE), ("repvgg", repvgg, IMAGE), ("convmixer", convmixer, IMAGE),
    ("convnext", convnext, IMAGE), ("csp_darknet", csp_darknet, IMAGE), ("cbam", cbam, IMAGE),
    ("unet_transposed", UNet, GRAY), ("unet_nearest", lambda: UNet("nearest"), GRAY), ("unet_bilinear", lambda: UNet("bilinear"), GRAY),
    ("segmenter", Segmenter, IMAGE), ("yolo", Yolo, IMAGE), ("detector", Detector, IMAGE), ("espcn", Espcn, GRAY),
    ("autoencoder", Autoencoder, GRAY), ("generator", Generator, [(10,)]), ("style_transfer", StyleTransfer, IMAGE),
    ("tcn", Tcn, [(3, 12)]), ("wavenet", WaveNet, [(1, 16)]), ("cnn1d", cnn1d, [(2, 24)]), ("unet1d", unet1d, [(2, 16)]),
    ("gru", lambda: Recurrent(nn.GRU), [(5, 4)]), ("lstm", lambda: Recurrent(nn.LSTM), [(5, 4)]),
    ("rnn", lambda: Recurrent(nn.RNN, last=False), [(5, 4)]), ("bilstm", lambda: Recurrent(nn.LSTM, False, bidirectional=True), [(5, 4)]),
    ("gru2", lambda: Recurrent(nn.GRU, num_layers=2), [(5, 4)]), ("crnn", Crnn, GRAY), ("mixer", Mixer, GRAY), ("resmlp", GMlp, GRAY),
    ("siamese", siamese, [(1, 8, 8), (1, 8, 8)]), ("embedder", embedder, GRAY), ("two_heads", two_heads, GRAY),
    ("two_inputs", two_inputs, [(1, 8, 8), (3,)]), ("group_norm", group_norm_net, IMAGE), ("rms_mlp", rms_mlp, [(16,)]),
    ("text_mean", text_classifier, [("int", (7,), 20)]), ("text_cnn", text_cnn, [("int", (7,), 20)]), ("maxout", maxout, [(16,)]),
    ("normalized_input", normalized_input, IMAGE), ("keywords", keyword_net, [(1, 16, 16)]), ("prelu_net", prelu_net, GRAY),
    ("text_reader", TextReader, [(1, 8, 16)]), ("gru_cell", lambda: Cells(nn.GRUCell), [(5, 4)]),
    ("lstm_cell", lambda: Cells(nn.LSTMCell), [(5, 4)]), ("own_recurrence", OwnRecurrence, [(5, 4)]),
    ("temporal_shift", TemporalShift, [(6, 10)]), ("coord_conv", CoordConv, IMAGE),
]


def between(function, **parts):
    """The function between two convolutions, so that integers surround it."""
    return lambda: Fn(lambda m, x: m.head(F.relu(m.tail(function(m, F.relu(m.conv(x)))))), conv=conv(3, 8), tail=nn.LazyConv2d(6, 1),
                      head=Head(6), **{name: make() for name, make in parts.items()})


def rows(function, **parts):
    """The function between two linear layers, on [n, 12]."""
    return lambda: Fn(lambda m, x: m.b(function(m, m.a(x))), a=nn.Linear(8, 12), b=nn.LazyLinear(4),
                      **{name: make() for name, make in parts.items()})


def act(module):
    return between(lambda m, x: m.act(m.mid(x)), mid=lambda: nn.Conv2d(8, 8, 1), act=module)


PATTERNS = [
    ("slice_step", rows(lambda m, x: x[:, ::2]), [(8,)]), ("slice_negative", rows(lambda m, x: x[:, -5:-1]), [(8,)]),
    ("slice_image", between(lambda m, x: x[:, 2:6, 1:-1, ::2]), IMAGE), ("index_one", rows(lambda m, x: x.view(-1, 3, 4)[:, 1]), [(8,)]),
    ("flip", rows(lambda m, x: torch.flip(x, [1])), [(8,)]), ("split", rows(lambda m, x: torch.cat(list(x.split([5, 4, 3], 1))[::-1], 1)), [(8,)]),
    ("chunk", between(lambda m, x: x.chunk(2, 1)[0] + x.chunk(2, 1)[1]), IMAGE), ("glu", rows(lambda m, x: F.glu(x, 1)), [(8,)]),
    ("index_select", between(lambda m, x: x[:, [0, 3, 2, 7]]), IMAGE), ("channel_shuffle", between(lambda m, x: shuffle(x, 4)), IMAGE),
    ("pixel_shuffle", between(lambda m, x: F.pixel_shuffle(x, 2)), IMAGE), ("pixel_unshuffle", between(lambda m, x: F.pixel_unshuffle(x, 2)), IMAGE),
    ("pad_zero", between(lambda m, x: F.pad(x, (1, 2, 0, 1))), IMAGE), ("pad_value", between(lambda m, x: F.pad(x, (1, 1, 1, 1), value=0.5)), IMAGE),
    ("pad_reflect", between(lambda m, x: F.pad(x, (2, 1, 1, 2), mode="reflect")), IMAGE),
    ("pad_edge", between(lambda m, x: F.pad(x, (2, 1, 1, 2), mode="replicate")), IMAGE),
    ("pad_circular", between(lambda m, x: F.pad(x, (2, 1, 1, 2), mode="circular")), IMAGE),
    ("max_pool_ceil", between(lambda m, x: F.max_pool2d(x, 3, 2, ceil_mode=True)), IMAGE),
    ("avg_pool_ceil", between(lambda m, x: F.avg_pool2d(x, 2, 2, ceil_mode=True)), IMAGE),
    ("avg_pool_padded", between(lambda m, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)), IMAGE),
    ("pools_concat", lambda: Fn(lambda m, x: m.fc(torch.cat([F.avg_pool2d(x, 2), F.max_pool2d(x, 2)], 1).flatten(1)), fc=nn.Linear(96, 4)), IMAGE),
    ("global_max", between(lambda m, x: x * torch.sigmoid(F.adaptive_max_pool2d(x, 1))), IMAGE),
    ("squeeze_excite", between(lambda m, x: m.se(x), se=lambda: SqueezeExcite(8)), IMAGE),
    ("spatial_gate", between(lambda m, x: x * torch.sigmoid(m.g(x)), g=lambda: nn.Conv2d(8, 1, 1)), IMAGE),
    ("broadcast_add", between(lambda m, x: x + x.mean((2, 3), keepdim=True)), IMAGE),
    ("broadcast_sub", between(lambda m, x: x - x.mean((2, 3), keepdim=True)), IMAGE),
    ("scale_channels", between(lambda m, x: x * m.s, s=lambda: nn.Parameter(torch.rand(8, 1, 1) + 0.5)), IMAGE),
    ("offset_channels", between(lambda m, x: x + m.s, s=lambda: nn.Parameter(torch.randn(8, 1, 1))), IMAGE),
    ("layer_scale", between(lambda m, x: x + m.s * m.c(x), s=lambda: nn.Parameter(torch.rand(8, 1, 1)), c=lambda: conv(8, 8)), IMAGE),
    ("scalar_ops", rows(lambda m, x: (2 * x - 0.5) / 3 + 1), [(8,)]), ("norm_after_concat", between(lambda m, x: m.n(torch.cat([x, x], 1)), n=lambda: nn.BatchNorm2d(16)), IMAGE),
    ("norm_before", lambda: Fn(lambda m, x: m.b(F.relu(m.a(m.n(x)))), n=nn.BatchNorm1d(8), a=nn.Linear(8, 12), b=nn.Linear(12, 4)), [(8,)]),
    ("norm_last", lambda: seq(nn.Linear(8, 12), nn.ReLU(), nn.BatchNorm1d(12)), [(8,)]),
    ("prelu_channels", act(lambda: nn.PReLU(8)), IMAGE), ("prelu_one", act(nn.PReLU), IMAGE), ("elu", act(nn.ELU), IMAGE),
    ("selu", act(nn.SELU), IMAGE), ("celu", act(lambda: nn.CELU(0.5)), IMAGE), ("softplus", act(nn.Softplus), IMAGE),
    ("mish", act(nn.Mish), IMAGE), ("gelu", act(nn.GELU), IMAGE), ("gelu_tanh", act(lambda: nn.GELU("tanh")), IMAGE),
    ("silu", act(nn.SiLU), IMAGE), ("hardswish", act(nn.Hardswish), IMAGE), ("softsign", act(nn.Softsign), IMAGE),
    ("hardtanh", act(nn.Hardtanh), IMAGE), ("logsigmoid", act(nn.LogSigmoid), IMAGE),
    ("abs", rows(lambda m, x: torch.abs(x)), [(8,)]), ("square", rows(lambda m, x: x.pow(2)), [(8,)]),
    ("self_product", rows(lambda m, x: x * x), [(8,)]), ("exp", rows(lambda m, x: torch.exp(-x)), [(8,)]),
    ("sqrt_log", rows(lambda m, x: torch.log(torch.sqrt(torch.relu(x) + 1))), [(8,)]), ("pow_3", rows(lambda m, x: torch.relu(x).pow(3)), [(8,)]),
    ("erf", rows(lambda m, x: torch.erf(x)), [(8,)]), ("maximum", rows(lambda m, x: torch.maximum(x, m.c(x)), c=lambda: nn.Linear(12, 12)), [(8,)]),
    ("minimum", rows(lambda m, x: torch.minimum(x, m.c(x)), c=lambda: nn.Linear(12, 12)), [(8,)]),
    ("where_constant", rows(lambda m, x: torch.where(torch.arange(12) < 5, x, torch.zeros(()))), [(8,)]),
    ("normalize", rows(lambda m, x: F.normalize(x, dim=1)), [(8,)]), ("layer_norm", rows(lambda m, x: m.n(x), n=lambda: nn.LayerNorm(12)), [(8,)]),
    ("instance_norm", between(lambda m, x: m.n(x), n=lambda: nn.InstanceNorm2d(8)), IMAGE),
    ("group_norm_pattern", between(lambda m, x: m.n(x), n=lambda: nn.GroupNorm(4, 8)), IMAGE),
    ("lrn", between(lambda m, x: m.n(x), n=lambda: nn.LocalResponseNorm(3)), IMAGE),
    ("upsample_nearest", between(lambda m, x: F.interpolate(x, scale_factor=2)), IMAGE),
    ("upsample_size", between(lambda m, x: F.interpolate(x, size=(16, 24))), IMAGE),
    ("upsample_bilinear", between(lambda m, x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)), IMAGE),
    ("upsample_corners", between(lambda m, x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)), IMAGE),
    ("deconv_1", between(lambda m, x: m.d(x), d=lambda: nn.ConvTranspose2d(8, 6, 3, padding=1)), IMAGE),
    ("deconv_2", between(lambda m, x: m.d(x), d=lambda: nn.ConvTranspose2d(8, 6, 3, 2, 1, 1)), IMAGE),
    ("deconv_groups", between(lambda m, x: m.d(x), d=lambda: nn.ConvTranspose2d(8, 8, 4, 2, 1, groups=8)), IMAGE),
    ("deconv_dilated", between(lambda m, x: m.d(x), d=lambda: nn.ConvTranspose2d(8, 6, 3, 2, dilation=2)), IMAGE),
    ("softmax_last", lambda: seq(nn.Linear(8, 5), nn.Softmax(1)), [(8,)]), ("log_softmax_last", lambda: seq(nn.Linear(8, 5), nn.LogSoftmax(1)), [(8,)]),
    ("sigmoid_last", lambda: seq(nn.Linear(8, 5), nn.Sigmoid()), [(8,)]), ("argmax_last", lambda: Fn(lambda m, x: m.a(x).argmax(1), a=nn.Linear(8, 5)), [(8,)]),
    ("argmax_image", lambda: Fn(lambda m, x: m.a(x).argmax(1), a=nn.Conv2d(3, 4, 3)), IMAGE),
    ("transpose_linear", lambda: Fn(lambda m, x: m.b(m.a(x).transpose(1, 2)), a=nn.Linear(6, 4), b=nn.Linear(5, 3)), [(5, 6)]),
    ("unflatten", rows(lambda m, x: x.unflatten(1, (3, 4)).sum(1)), [(8,)]), ("mean_axis", rows(lambda m, x: x.view(-1, 3, 4).mean(1)), [(8,)]),
    ("max_axis", rows(lambda m, x: x.view(-1, 3, 4).amax(2)), [(8,)]), ("sum_all", rows(lambda m, x: x.sum(1, keepdim=True)), [(8,)]),
    ("repeat", rows(lambda m, x: x.repeat(1, 2)), [(8,)]), ("expand", between(lambda m, x: x + m.p(x).expand(-1, 8, -1, -1), p=lambda: nn.Conv2d(8, 1, 1)), IMAGE),
    ("roll", rows(lambda m, x: torch.roll(x, 3, 1)), [(8,)]), ("stack", rows(lambda m, x: torch.stack([x, 2 * x], 2).flatten(1)), [(8,)]),
    ("einsum", lambda: Fn(lambda m, x: torch.einsum("bij,jk->bik", x, m.w), w=nn.Parameter(torch.randn(6, 4))), [(5, 6)]),
    ("matmul_left", lambda: Fn(lambda m, x: m.w @ m.a(x), a=nn.Linear(6, 6), w=nn.Parameter(torch.randn(4, 5))), [(5, 6)]),
    ("bilinear_gate", rows(lambda m, x: m.c(x) * torch.sigmoid(m.d(x)), c=lambda: nn.Linear(12, 8), d=lambda: nn.Linear(12, 8)), [(8,)]),
    ("squeeze", lambda: Fn(lambda m, x: m.l(F.adaptive_avg_pool2d(m.c(x), 1).squeeze()), c=conv(3, 8), l=nn.Linear(8, 3)), IMAGE),
    ("conv_reshaped_out", lambda: Fn(lambda m, x: m.c(x).flatten(2), c=conv(3, 4)), IMAGE),
    ("two_pools", lambda: Fn(lambda m, x: m.fc(torch.cat([F.adaptive_avg_pool2d(x, 1), F.adaptive_max_pool2d(x, 1)], 1).flatten(1)), fc=nn.Linear(6, 3)), IMAGE),
    ("adaptive_3", between(lambda m, x: F.adaptive_avg_pool2d(x, 2)), IMAGE), ("clamp_min", rows(lambda m, x: x.clamp(min=0.1)), [(8,)]),
    ("reciprocal", rows(lambda m, x: 1 / (x.abs() + 1)), [(8,)]), ("div_two", rows(lambda m, x: x / (m.c(x).abs() + 1), c=lambda: nn.Linear(12, 12)), [(8,)]),
    ("attention_pool", lambda: Fn(lambda m, x: m.l((torch.softmax(m.s(torch.tanh(m.a(x))), 1) * x).sum(1)), a=nn.Linear(6, 4), s=nn.Linear(4, 1), l=nn.Linear(6, 3)), [(9, 6)]),
    ("attention", lambda: Fn(lambda m, x: m.l((torch.softmax(m.q(x) @ m.k(x).transpose(1, 2) / 8 ** 0.5, -1) @ m.v(x)).mean(1)), q=nn.Linear(6, 8), k=nn.Linear(6, 8), v=nn.Linear(6, 8), l=nn.Linear(8, 3)), [(9, 6)]),
    ("multi_head", lambda: Fn(lambda m, x: m.l(m.a(x, x, x)[0].mean(1)), a=nn.MultiheadAttention(8, 2, batch_first=True), l=nn.Linear(8, 3)), [(9, 8)]),
    ("cross_attention", lambda: Fn(lambda m, x, z: m.l(m.a(x, z, z)[0].mean(1)), a=nn.MultiheadAttention(8, 2, batch_first=True), l=nn.Linear(8, 3)), [(5, 8), (7, 8)]),
    ("encoder", lambda: Fn(lambda m, x: m.l(m.e(x).mean(1)), e=nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), l=nn.Linear(8, 3)), [(9, 8)]),
    ("encoder_steps", lambda: Fn(lambda m, x: m.l(m.e(x.transpose(0, 1)).mean(0)), e=nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 1), l=nn.Linear(8, 3)), [(9, 8)]),
    ("causal", lambda: Fn(lambda m, x: m.l(torch.softmax((x @ x.transpose(1, 2)).masked_fill(torch.triu(torch.ones(9, 9), 1).bool(), float("-inf")), -1) @ x), l=nn.Linear(6, 3)), [(9, 6)]),
    ("linear_attention", lambda: Fn(lambda m, x: m.l(F.relu(m.q(x)) @ (F.relu(m.k(x)).transpose(1, 2) @ x)), q=nn.Linear(6, 8), k=nn.Linear(6, 8), l=nn.Linear(6, 3)), [(9, 6)]),
    ("learned_queries", lambda: Fn(lambda m, x: m.l(m.a(m.q.expand(x.shape[0], -1, -1), x, x, need_weights=False)[0].mean(1)), q=nn.Parameter(torch.randn(1, 3, 8)), a=nn.MultiheadAttention(8, 2, batch_first=True), l=nn.Linear(8, 3)), [(9, 8)]),
    ("shared_heads", lambda: Fn(lambda m, x: m.l(torch.softmax(m.q(x).view(-1, 9, 2, 4).transpose(1, 2) @ m.k(x).unsqueeze(1).transpose(-1, -2) / 2, -1).sum(1) @ x), q=nn.Linear(8, 8), k=nn.Linear(8, 4), l=nn.Linear(8, 3)), [(9, 8)]),
    ("biased_mask", lambda: Fn(lambda m, x: m.l(torch.softmax(x @ x.transpose(1, 2) + torch.tril(-0.5 * (torch.arange(9)[:, None] - torch.arange(9)).abs()).masked_fill(torch.triu(torch.ones(9, 9), 1).bool(), float("-inf")), -1) @ x), l=nn.Linear(6, 3)), [(9, 6)]),
    ("gram", between(lambda m, x: x.flatten(2) @ x.flatten(2).transpose(1, 2) / 64), IMAGE),
    ("einsum_pool", lambda: Fn(lambda m, x: m.l(torch.einsum("bnd,bn->bd", x, torch.softmax(m.s(x).squeeze(-1), 1))), s=nn.Linear(6, 1), l=nn.Linear(6, 3)), [(9, 6)]),
    ("softmax_gate", between(lambda m, x: x * torch.softmax(m.c(x), 1), c=lambda: nn.Conv2d(8, 8, 1)), IMAGE),
    ("spatial_softmax", between(lambda m, x: x * torch.softmax(x.flatten(2), -1).view_as(x)), IMAGE),
    ("soft_argmax", lambda: Fn(lambda m, x: (torch.softmax(m.c(x).flatten(2), 2)[..., None] * m.g).sum(2), c=conv(3, 4), g=nn.Parameter(torch.rand(1, 1, 64, 2))), IMAGE),
    ("selective_kernel", between(lambda m, x: (torch.softmax(torch.stack([m.f(x.mean((2, 3))), m.g(x.mean((2, 3)))], 1), 1)[:, :, :, None, None] * torch.stack([x, m.c(x)], 1)).sum(1), f=lambda: nn.Linear(8, 8), g=lambda: nn.Linear(8, 8), c=lambda: conv(8, 8)), IMAGE),
    ("distribution_focal", lambda: Fn(lambda m, x: m.e(m.c(x).view(-1, 4, 8, 64).transpose(1, 2).softmax(1)).view(-1, 4, 64), c=conv(3, 32), e=nn.Conv2d(8, 1, 1, bias=False)), IMAGE),
    ("argmax_parts", lambda: Fn(lambda m, x: m.c(x).argmax(1)[:, ::2, 1:].transpose(1, 2), c=nn.Conv2d(3, 4, 3)), [(3, 9, 8)]),
    ("columns", lambda: Fn(lambda m, x: m.l(torch.cat([m.a(x[:, 0]), m.b(x[:, 1]), m.c(x[:, 2:]).flatten(1)], 1)), a=nn.Embedding(20, 6), b=nn.Embedding(30, 4), c=nn.Embedding(25, 3), l=nn.Linear(16, 3)), [("int", (4,), 20)]),
    ("positions", lambda: Fn(lambda m, x: m.l((m.w(x) + m.p(torch.arange(x.size(1)).unsqueeze(0).expand_as(x))).mean(1)), w=nn.Embedding(20, 8), p=nn.Embedding(7, 8), l=nn.Linear(8, 3)), [("int", (7,), 20)]),
    ("one_hot", lambda: Fn(lambda m, x: m.l(F.one_hot(x, 20).float().flatten(1)), l=nn.Linear(140, 3)), [("int", (7,), 20)]),
    ("byte_image", lambda: Fn(lambda m, x: m.l(m.c(x.float() / 127.5 - 1).mean((2, 3))), c=conv_bn(1, 8), l=nn.Linear(8, 3)), [("int", (1, 8, 8), 256)]),
    ("divided_rows", lambda: Fn(lambda m, x: m.l(x) / m.s, l=nn.Linear(6, 4), s=nn.Parameter(torch.rand(5, 1) + 0.5)), [(5, 6)]),
    ("softshrink", between(lambda m, x: F.softshrink(x, 0.2)), IMAGE), ("hardshrink", between(lambda m, x: F.hardshrink(x, 0.2)), IMAGE),
    ("above_mean", between(lambda m, x: x * (x > x.mean(1, keepdim=True)).float()), IMAGE), ("where_two", between(lambda m, x: torch.where(m.c(x) > x, x, m.c(x) - 0.5), c=lambda: conv(8, 8)), IMAGE),
    ("sine_features", rows(lambda m, x: torch.cat([x, torch.sin(3 * x), torch.cos(3 * x)], 1)), [(8,)]), ("atan", rows(lambda m, x: torch.atan(x)), [(8,)]),
    ("sign", rows(lambda m, x: torch.sign(x)), [(8,)]), ("round", rows(lambda m, x: torch.round(x * 4) / 4), [(8,)]), ("remainder", rows(lambda m, x: torch.remainder(x, 1.0)), [(8,)]),
    ("log_of_softmax", rows(lambda m, x: torch.log(F.softmax(x, 1) + 1e-3)), [(8,)]), ("log_softmax_between", rows(lambda m, x: F.log_softmax(x, 1)), [(8,)]),
]
