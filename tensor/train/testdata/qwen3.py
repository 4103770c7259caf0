"""Prints the mean loss of the Qwen3 in a folder on a text, byte by byte, from config.json and
model.safetensors alone: python3 qwen3.py FOLDER TEXT"""
import json, sys, numpy as np

folder, text = sys.argv[1], np.fromfile(sys.argv[2], np.uint8)
c, raw = json.load(open(folder + "/config.json")), open(folder + "/model.safetensors", "rb").read()
start = 8 + int.from_bytes(raw[:8], "little")
head = json.loads(raw[8:start])
assert c["model_type"] == "qwen3" and c["hidden_act"] == "silu" and not c["attention_bias"]
assert head.pop("__metadata__")["format"] == "pt"
data = lambda a, b: np.frombuffer(raw[start + a:start + b], "<f4").astype(float)
w = {k: data(*v["data_offsets"]).reshape(v["shape"]) for k, v in head.items()}
embed = w["model.embed_tokens.weight"]
out, d = embed if c["tie_word_embeddings"] else w["lm_head.weight"], c["head_dim"]
norm = lambda x, gain: x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * gain

def turn(x):  # [heads, t, d] by the angles of positions; a pair is of both halves
    angle = np.outer(np.arange(x.shape[1]), c["rope_theta"] ** (-np.arange(0, d, 2) / d))
    z = (x[..., :d // 2] + 1j * x[..., d // 2:]) * np.exp(1j * angle)
    return np.concatenate([z.real, z.imag], -1)

def losses(text):  # of each byte but the first
    h, t, n = embed[text[:-1]], len(text) - 1, c["num_attention_heads"]
    for i in range(c["num_hidden_layers"]):
        p = lambda name: w[f"model.layers.{i}.{name}.weight"]
        split = lambda x: x.reshape(t, -1, d).swapaxes(0, 1).repeat(n * d // x.shape[1], 0)
        x = norm(h, p("input_layernorm"))
        q, k, v = (split(x @ p(f"self_attn.{name}_proj").T) for name in "qkv")
        q, k = turn(norm(q, p("self_attn.q_norm"))), turn(norm(k, p("self_attn.k_norm")))
        score = np.exp(np.where(np.tri(t), q @ k.swapaxes(1, 2) / np.sqrt(d), -np.inf))
        y = (score / score.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(t, -1)
        h = h + y @ p("self_attn.o_proj").T
        x = norm(h, p("post_attention_layernorm"))
        gate, up = x @ p("mlp.gate_proj").T, x @ p("mlp.up_proj").T
        h = h + gate / (1 + np.exp(-gate)) * up @ p("mlp.down_proj").T
    z = norm(h, w["model.norm.weight"]) @ out.T
    return np.log(np.exp(z).sum(-1)) - z[np.arange(t), text[1:]]

n = c["max_position_embeddings"]
print(np.concatenate([losses(text[at:at + n + 1]) for at in range(0, len(text) - 1, n)]).mean())
