"""Prints the mean loss of the Qwen3 in a folder on a text, byte by byte, from config.json and
model.safetensors alone: python3 qwen3.py FOLDER TEXT"""
import json, struct, sys
import numpy as np

folder, text = sys.argv[1], np.fromfile(sys.argv[2], np.uint8)
c = json.load(open(folder + "/config.json"))
assert c["model_type"] == "qwen3" and c["hidden_act"] == "silu" and not c["attention_bias"]
raw = open(folder + "/model.safetensors", "rb").read()
start = 8 + struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:start])
assert head.pop("__metadata__")["format"] == "pt"
w = {k: np.frombuffer(raw[start + t["data_offsets"][0]:start + t["data_offsets"][1]], "<f4").reshape(t["shape"]).astype(float)
     for k, t in head.items()}
embed = w["model.embed_tokens.weight"]
out = embed if c["tie_word_embeddings"] else w["lm_head.weight"]
q_heads, kv_heads, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]

def norm(x, gain):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * gain

def turn(x):  # [heads, t, d], by the angles of their positions
    angle = np.outer(np.arange(x.shape[1]), c["rope_theta"] ** (-np.arange(0, d, 2) / d))
    a, b = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)

def logits(tokens):
    h, t = embed[tokens], len(tokens)
    for i in range(c["num_hidden_layers"]):
        p = lambda name: w[f"model.layers.{i}.{name}.weight"]
        heads = lambda x, name, n: (x @ p(f"self_attn.{name}_proj").T).reshape(t, n, d)
        x = norm(h, p("input_layernorm"))
        q = turn(norm(heads(x, "q", q_heads), p("self_attn.q_norm")).swapaxes(0, 1))
        k = turn(norm(heads(x, "k", kv_heads), p("self_attn.k_norm")).swapaxes(0, 1)).repeat(q_heads // kv_heads, 0)
        v = heads(x, "v", kv_heads).swapaxes(0, 1).repeat(q_heads // kv_heads, 0)
        score = np.exp(np.where(np.tri(t), q @ k.swapaxes(1, 2) / np.sqrt(d), -np.inf))
        y = score / score.sum(-1, keepdims=True) @ v
        h = h + y.swapaxes(0, 1).reshape(t, -1) @ p("self_attn.o_proj").T
        x = norm(h, p("post_attention_layernorm"))
        gate = x @ p("mlp.gate_proj").T
        h = h + (gate / (1 + np.exp(-gate)) * (x @ p("mlp.up_proj").T)) @ p("mlp.down_proj").T
    return norm(h, w["model.norm.weight"]) @ out.T

loss, length = 0, c["max_position_embeddings"]
for at in range(0, len(text) - 1, length):
    x, y = text[at:at + length][:len(text) - 1 - at], text[at + 1:at + 1 + length]
    z = logits(x)
    loss += (np.log(np.exp(z).sum(-1)) - z[np.arange(len(y)), y]).sum()
print(loss / (len(text) - 1))
