"""Writes curve_mlp.json, curve_gpt.json and curve_qwen.json: fifty training steps of three models, from PyTorch.

Run (Debian: apt-get install python3-torch libopenblas0-openmp):

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE /usr/bin/python3 curves.py

Neither weights nor batches are in a file: formula.py makes both, and tensor/data/formula.go makes
the same. A parameter named N with offset and scale holds, at flat row-major index i,

    offset + scale * unit(key(N), i)

Step s (from 0) trains on batch s % batches; its numbers come from the streams "x.<batch>" and
"y.<batch>" (or "tokens.<batch>") as "data" says. Every scale is a power of two, so all of
it is exact in f32. The optimizer is AdamW (decoupled decay, on every parameter):

    t = s + 1;  p -= lr*wd*p;  m = b1*m + (1-b1)*g;  v = b2*v + (1-b2)*g*g
    p -= lr * (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)

Fields: "loss" is the loss of step s before its update, computed in double precision throughout
(the truth to compare with); "loss_f32" is the same run in single precision, which shows
how far an honest f32 implementation may be off. For each parameter, "grad" and "final"
are sum and Euclidean norm of its first gradient and of its value after the last step, in double.
"""
import json

import numpy as np
import torch
import torch.nn.functional as F

import formula

STEPS = 50
ADAMW = dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01)


# ---- models: functions of a dictionary of parameters ---------------------------------------------

MLP = dict(inputs=784, hidden=128, classes=10, batch=32, batches=4)


def mlp_params():
    """name -> (shape, offset, scale); linear weights are [out, in], y = x W^T + b."""
    c = MLP
    return {"fc1.weight": ([c["hidden"], c["inputs"]], 0.0, 2.0 ** -5), "fc1.bias": ([c["hidden"]], 0.0, 2.0 ** -5),
            "fc2.weight": ([c["classes"], c["hidden"]], 0.0, 2.0 ** -4), "fc2.bias": ([c["classes"]], 0.0, 2.0 ** -4)}


def mlp_batch(k):
    x = formula.uniform("x.%d" % k, [MLP["batch"], MLP["inputs"]])
    y = formula.indices("y.%d" % k, [MLP["batch"]], MLP["classes"])
    return torch.from_numpy(x), torch.from_numpy(y)


def mlp_loss(p, x, y):
    h = F.relu(F.linear(x, p["fc1.weight"], p["fc1.bias"]))
    return F.cross_entropy(F.linear(h, p["fc2.weight"], p["fc2.bias"]), y)


GPT = dict(vocab=256, hidden=64, layers=2, heads=4, seq=32, batch=2, batches=2)


def gpt_params():
    d = GPT["hidden"]
    p = {"wte.weight": ([GPT["vocab"], d], 0.0, 2.0 ** -5), "wpe.weight": ([GPT["seq"], d], 0.0, 2.0 ** -5)}
    for i in range(GPT["layers"]):
        b = "blocks.%d." % i
        for norm in ("ln1", "ln2"):
            p[b + norm + ".weight"], p[b + norm + ".bias"] = ([d], 1.0, 2.0 ** -3), ([d], 0.0, 2.0 ** -4)
        for name, n, m in (("qkv", d, 3 * d), ("proj", d, d), ("fc", d, 4 * d), ("out", 4 * d, d)):
            p[b + name + ".weight"], p[b + name + ".bias"] = ([m, n], 0.0, 2.0 ** -4), ([m], 0.0, 2.0 ** -5)
    p["lnf.weight"], p["lnf.bias"] = ([d], 1.0, 2.0 ** -3), ([d], 0.0, 2.0 ** -4)
    return p


def gpt_batch(k):
    t = formula.indices("tokens.%d" % k, [GPT["batch"], GPT["seq"] + 1], GPT["vocab"])
    return torch.from_numpy(t[:, :-1].copy()), torch.from_numpy(t[:, 1:].copy())


def gpt_loss(p, x, y):
    c, (B, T) = GPT, x.shape
    d, hd = c["hidden"], c["hidden"] // c["heads"]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    h = F.embedding(x, p["wte.weight"]) + p["wpe.weight"][:T]
    for i in range(c["layers"]):
        w = lambda name: (p["blocks.%d.%s.weight" % (i, name)], p["blocks.%d.%s.bias" % (i, name)])
        q, k, v = (z.view(B, T, -1, hd).transpose(1, 2) for z in F.linear(F.layer_norm(h, [d], *w("ln1")), *w("qkv")).split(d, 2))
        a = (q @ k.transpose(-2, -1) * hd ** -0.5).masked_fill(future, float("-inf"))
        h = h + F.linear((F.softmax(a, -1) @ v).transpose(1, 2).reshape(B, T, d), *w("proj"))
        h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, [d], *w("ln2")), *w("fc"))), *w("out"))
    logits = F.linear(F.layer_norm(h, [d], p["lnf.weight"], p["lnf.bias"]), p["wte.weight"])
    return F.cross_entropy(logits.view(B * T, -1), y.reshape(-1))


QWEN = dict(vocab=256, hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, ffn=192,
            seq=64, batch=2, batches=2, rope_theta=1e6, rms_eps=1e-6)


def qwen_params():
    c = QWEN
    d, q, kv = c["hidden"], c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    p = {"embed.weight": ([c["vocab"], d], 0.0, 2.0 ** -5)}
    for i in range(c["layers"]):
        b = "layers.%d." % i
        p[b + "attn_norm.weight"] = ([d], 1.0, 2.0 ** -3)
        p[b + "attn.q.weight"] = ([q, d], 0.0, 2.0 ** -4)
        p[b + "attn.k.weight"] = ([kv, d], 0.0, 2.0 ** -4)
        p[b + "attn.v.weight"] = ([kv, d], 0.0, 2.0 ** -4)
        p[b + "attn.q_norm.weight"] = ([c["head_dim"]], 1.0, 2.0 ** -3)
        p[b + "attn.k_norm.weight"] = ([c["head_dim"]], 1.0, 2.0 ** -3)
        p[b + "attn.o.weight"] = ([d, q], 0.0, 2.0 ** -4)
        p[b + "mlp_norm.weight"] = ([d], 1.0, 2.0 ** -3)
        p[b + "mlp.gate.weight"] = ([c["ffn"], d], 0.0, 2.0 ** -4)
        p[b + "mlp.up.weight"] = ([c["ffn"], d], 0.0, 2.0 ** -4)
        p[b + "mlp.down.weight"] = ([d, c["ffn"]], 0.0, 2.0 ** -4)
    p["norm.weight"] = ([d], 1.0, 2.0 ** -3)
    return p


def qwen_batch(k):
    t = formula.indices("tokens.%d" % k, [QWEN["batch"], QWEN["seq"] + 1], QWEN["vocab"])
    return torch.from_numpy(t[:, :-1].copy()), torch.from_numpy(t[:, 1:].copy())


def rms(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + QWEN["rms_eps"]) * w


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def qwen_loss(p, x, y):
    c, (B, T) = QWEN, x.shape
    hd, group = c["head_dim"], c["heads"] // c["kv_heads"]
    dt = p["embed.weight"].dtype
    freq = c["rope_theta"] ** (-torch.arange(0, hd, 2).double() / hd)
    ang = torch.outer(torch.arange(T).double(), freq).repeat(1, 2)
    cos, sin = ang.cos().to(dt), ang.sin().to(dt)
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    h = F.embedding(x, p["embed.weight"])
    for i in range(c["layers"]):
        w = lambda name: p["layers.%d.%s.weight" % (i, name)]
        n = rms(h, w("attn_norm"))
        heads = lambda name: F.linear(n, w(name)).view(B, T, -1, hd)
        q = rotate(rms(heads("attn.q"), w("attn.q_norm")).transpose(1, 2), cos, sin)
        k = rotate(rms(heads("attn.k"), w("attn.k_norm")).transpose(1, 2), cos, sin)
        v = heads("attn.v").transpose(1, 2)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        a = (q @ k.transpose(-2, -1) * hd ** -0.5).masked_fill(future, float("-inf"))
        o = (F.softmax(a, -1) @ v).transpose(1, 2).reshape(B, T, -1)
        h = h + F.linear(o, w("attn.o"))
        n = rms(h, w("mlp_norm"))
        h = h + F.linear(F.silu(F.linear(n, w("mlp.gate"))) * F.linear(n, w("mlp.up")), w("mlp.down"))
    logits = F.linear(rms(h, p["norm.weight"]), p["embed.weight"])
    return F.cross_entropy(logits.view(B * T, -1), y.reshape(-1))


# ---- training -----------------------------------------------------------------------------------

def train(spec, batch, loss, batches, dtype):
    p = {n: torch.from_numpy(formula.uniform(n, s, o, sc)).to(dtype).requires_grad_(True) for n, (s, o, sc) in spec.items()}
    opt = torch.optim.AdamW(p.values(), lr=ADAMW["lr"], betas=(ADAMW["beta1"], ADAMW["beta2"]),
                            eps=ADAMW["eps"], weight_decay=ADAMW["weight_decay"])
    data = [batch(k) for k in range(batches)]
    losses, grads = [], {}
    for s in range(STEPS):
        x, y = data[s % batches]
        opt.zero_grad()
        l = loss(p, x.to(dtype) if x.is_floating_point() else x, y)
        l.backward()
        if s == 0:
            grads = {n: t.grad.detach().clone() for n, t in p.items()}
        losses.append(l.item())
        opt.step()
    return losses, grads, p


def digest(t):
    t = t.detach().double()
    return {"sum": float("%.12g" % t.sum().item()), "norm": float("%.12g" % t.norm().item())}


def write(path, model, config, spec, batch, loss, data):
    truth, grads, final = train(spec, batch, loss, config["batches"], torch.float64)
    single, _, _ = train(spec, batch, loss, config["batches"], torch.float32)
    head = {"model": model, "config": config, "optimizer": ADAMW, "steps": STEPS, "data": data, "torch": torch.__version__}
    lines = ['"%s":%s' % (k, json.dumps(v)) for k, v in head.items()]
    params = [json.dumps({"name": n, "shape": s, "offset": o, "scale": sc, "grad": digest(grads[n]), "final": digest(final[n])})
              for n, (s, o, sc) in spec.items()]
    lines.append('"params":[\n' + ",\n".join(params) + "\n]")
    lines.append('"loss":%s' % json.dumps([float("%.12g" % l) for l in truth]))
    lines.append('"loss_f32":%s' % json.dumps([float("%.9g" % l) for l in single]))
    with open(path, "w") as out:
        out.write("{\n" + ",\n".join(lines) + "\n}\n")
    off = max(abs(a - b) / a for a, b in zip(truth, single))
    print("%s: loss %.4f to %.4f, f32 off by at most %.1e of the loss" % (path, truth[0], truth[-1], off))


write("curve_mlp.json", "mlp", MLP, mlp_params(), mlp_batch, mlp_loss,
      {"x": "f32 [batch, inputs] = unit", "y": "i64 [batch] = index below classes"})
write("curve_gpt.json", "gpt", GPT, gpt_params(), gpt_batch, gpt_loss,
      {"tokens": "i64 [batch, seq+1] = index below vocab; x is all but the last column, y all but the first"})
write("curve_qwen.json", "qwen3", QWEN, qwen_params(), qwen_batch, qwen_loss,
      {"tokens": "i64 [batch, seq+1] = index below vocab; x is all but the last column, y all but the first"})
