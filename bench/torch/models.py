"""The models of the comparison in plain eager PyTorch, parameter names as in tensor/nn/model.

Weights and batches are in no file: both sides compute them by the formulas of tensor/data/formula.go.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


# ---- values -------------------------------------------------------------------------------------

def stream(name, n):
    """The first n elements of the SplitMix64 stream whose key is the FNV-1a hash of name."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    with np.errstate(over="ignore"):
        z = np.uint64(key) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return z ^ z >> np.uint64(31)


def uniform(name, shape, offset, scale):
    signed = (stream(name, math.prod(shape)) >> np.uint64(40)).astype(np.int64) - (1 << 23)
    unit = (signed / (1 << 23)).astype(np.float32)
    return torch.from_numpy((np.float32(offset) + np.float32(scale) * unit).reshape(shape))


def indices(name, shape, n):
    """(hash * n) >> 64, from the hash's halves: n is small."""
    z, n = stream(name, math.prod(shape)), np.uint64(n)
    high, low = z >> np.uint64(32), z & np.uint64(0xFFFFFFFF)
    got = (high * n + (low * n >> np.uint64(32))) >> np.uint64(32)
    return torch.from_numpy(got.astype(np.int64).reshape(shape))


def initial(name, shape):
    """Offset and scale of a parameter: the twin of initial in bench/torch_models.go."""
    if name.endswith("norm.weight") or ".ln" in name and name.endswith("weight") or name == "lnf.weight":
        return 1.0, 2.0 ** -3
    return 0.0, 2.0 ** -3 if len(shape) == 4 else 2.0 ** -5


# ---- models -------------------------------------------------------------------------------------

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(784, 256), nn.Linear(256, 10)

    def forward(self, x, y):
        return F.cross_entropy(self.fc2(F.relu(self.fc1(x))), y)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x, y):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc2(F.relu(self.fc1(torch.flatten(x, 1)))))
        return F.cross_entropy(self.fc3(x), y)


class ConvNorm(nn.Module):
    def __init__(self, channels, out, kernel, stride):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(out, track_running_stats=False)

    def forward(self, x):
        return self.norm(self.conv(x))


class Residual(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.first, self.second = ConvNorm(channels, out, 3, stride), ConvNorm(out, out, 3, 1)
        self.shortcut = ConvNorm(channels, out, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.shortcut(x) + self.second(F.relu(self.first(x))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.same, self.down = ConvNorm(3, 32, 3, 1), Residual(32, 32, 1), Residual(32, 64, 2)
        self.fc = nn.Linear(64, 10)

    def forward(self, x, y):
        x = self.down(self.same(F.relu(self.stem(x))))
        return F.cross_entropy(self.fc(x.mean((2, 3))), y)


def attention(q, k, v, mask):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    a = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(q.size(-1)))
    return F.softmax(a.masked_fill(mask, float("-inf")), dim=-1) @ v


class GPTBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in self.qkv(self.ln1(x)).split(d, dim=2))
        x = x + self.proj(attention(q, k, v, mask).transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, d, layers, heads, context):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(context, d)
        self.blocks = nn.ModuleList(GPTBlock(d, heads) for _ in range(layers))
        self.lnf = nn.LayerNorm(d)
        self.register_buffer("mask", torch.ones(context, context, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x, y):
        t = x.shape[1]
        h = self.wte(x) + self.wpe(torch.arange(t))
        for block in self.blocks:
            h = block(h, self.mask[:t, :t])
        logits = F.linear(self.lnf(h), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))


class Decoder(GPT):
    """A GPT that decodes a token a step, with the keys and values of the positions before."""

    def __init__(self, vocab, d, layers, heads, context):
        super().__init__(vocab, d, layers, heads, context)
        self.tokens, self.next = indices("x", [context + 1], vocab), 0
        self.cache = [(torch.zeros(heads, context, d // heads), torch.zeros(heads, context, d // heads)) for _ in range(layers)]

    def forward(self, x, y):
        at, context = self.next, len(self.tokens) - 1
        self.next = (at + 1) % context
        h = self.wte(self.tokens[at:at + 1]) + self.wpe.weight[at:at + 1]
        for block, (keys, values) in zip(self.blocks, self.cache):
            q, k, v = (z.view(block.heads, 1, -1) for z in block.qkv(block.ln1(h)).split(h.shape[1], dim=1))
            keys[:, at:at + 1], values[:, at:at + 1] = k, v
            scores = q @ keys[:, :at + 1].transpose(1, 2) * (1.0 / math.sqrt(q.size(-1)))
            h = h + block.proj((F.softmax(scores, -1) @ values[:, :at + 1]).view(1, -1))
            h = h + block.out(F.gelu(block.fc(block.ln2(h))))
        return F.cross_entropy(F.linear(self.lnf(h), self.wte.weight), self.tokens[at + 1:at + 2])


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class QwenAttention(nn.Module):
    def __init__(self, d, heads, kv, dim):
        super().__init__()
        self.heads, self.kv, self.dim = heads, kv, dim
        self.q_proj, self.k_proj = nn.Linear(d, heads * dim, bias=False), nn.Linear(d, kv * dim, bias=False)
        self.v_proj, self.o_proj = nn.Linear(d, kv * dim, bias=False), nn.Linear(heads * dim, d, bias=False)
        self.q_norm, self.k_norm = RMSNorm(dim), RMSNorm(dim)

    def forward(self, x, cos, sin, mask):
        b, t, _ = x.shape
        q = turn(self.q_norm(self.q_proj(x).view(b, t, self.heads, self.dim)).transpose(1, 2), cos, sin)
        k = turn(self.k_norm(self.k_proj(x).view(b, t, self.kv, self.dim)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(b, t, self.kv, self.dim).transpose(1, 2)
        k, v = (z[:, :, None].expand(b, self.kv, self.heads // self.kv, t, self.dim).reshape(b, self.heads, t, self.dim) for z in (k, v))
        return self.o_proj(attention(q, k, v, mask).transpose(1, 2).reshape(b, t, self.heads * self.dim))


class QwenMLP(nn.Module):
    def __init__(self, d, inner):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
        self.down_proj = nn.Linear(inner, d, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class QwenLayer(nn.Module):
    def __init__(self, d, heads, kv, dim, inner):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(d), RMSNorm(d)
        self.self_attn, self.mlp = QwenAttention(d, heads, kv, dim), QwenMLP(d, inner)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Qwen3(nn.Module):
    def __init__(self, vocab, d, layers, heads, kv, dim, inner, context):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(vocab, d)
        self.model.layers = nn.ModuleList(QwenLayer(d, heads, kv, dim, inner) for _ in range(layers))
        self.model.norm = RMSNorm(d)
        angles = torch.outer(torch.arange(context).double(), 1e6 ** (-torch.arange(0, dim, 2).double() / dim)).repeat(1, 2)
        self.cos, self.sin = angles.cos().float(), angles.sin().float()
        self.mask = torch.ones(context, context, dtype=torch.bool).triu(1)

    def forward(self, x, y):
        t, m = x.shape[1], self.model
        h = m.embed_tokens(x)
        for layer in m.layers:
            h = layer(h, self.cos[:t], self.sin[:t], self.mask[:t, :t])
        logits = F.linear(m.norm(h), m.embed_tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))


def build(form):
    """The model that form, a dictionary, describes, and its batch."""
    kind = form["kind"]
    images = {"mlp": (MLP, [784]), "lenet": (LeNet, [1, 28, 28]), "resnet": (ResNet, [3, 32, 32])}
    if kind in images:
        make, shape = images[kind]
        m, shape = make(), [form["batch"]] + shape
        x, y = uniform("x", shape, 0, 1), indices("y", [form["batch"]], 10)
    else:
        d, heads, context = form["hidden"], form["heads"], form["seq"]
        if kind in ("gpt", "decode"):
            m = (GPT if kind == "gpt" else Decoder)(form["vocab"], d, form["layers"], heads, context)
        else:
            m = Qwen3(form["vocab"], d, form["layers"], heads, form["kv_heads"], form["head_dim"], form["ffn"], context)
        x, y = (indices(name, [form["batch"], context], form["vocab"]) for name in "xy")
    with torch.no_grad():
        for name, p in m.named_parameters():
            p.copy_(uniform(name, p.shape, *initial(name, p.shape)))
    return m, x, y
