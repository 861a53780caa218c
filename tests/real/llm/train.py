"""Trains the tiny model of llm_test.py from nothing and writes it as GGUF.

    train.py OUT [--seconds N] [--random]

A llama-architecture transformer of 0.4 million weights and a byte-pair vocabulary, both made from the
examples of prompts.py; `--random` writes the same file with weights as they are drawn. Needs Debian's
python3-torch and python3-numpy (with libopenblas0-pthread it is many times faster). File format:
GGUF version 3 (the specification of ggml-org/ggml); tensor names: llama.cpp, LLM_ARCH_LLAMA.
"""

import argparse
import collections
import math
import random
import re
import struct
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import prompts

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 96, 3, 3, 256, 1024
HEAD = WIDTH // HEADS
MERGES = 420
END, TURN, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
EPSILON, BASE = 1e-5, 10000.0
# How GPT-2 cuts text before bytes are paired.
CUT = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def byte_names():
    """GPT-2's printable name of each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in names:
            names[byte] = chr(256 + len(names) - len(printable))
    return names


NAMES = byte_names()


def pieces(text):
    return ["".join(NAMES[byte] for byte in word.encode()) for word in CUT.findall(text)]


def joined(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


class Vocabulary:
    def __init__(self, texts):
        counts = collections.Counter(piece for text in texts for piece in pieces(text))
        words = {word: list(word) for word in counts}
        self.merges = []
        for _ in range(MERGES):
            pairs = collections.Counter()
            for word, symbols in words.items():
                for pair in zip(symbols, symbols[1:]):
                    pairs[pair] += counts[word]
            if not pairs:
                break
            pair = max(pairs, key=lambda p: (pairs[p], p))
            self.merges.append(pair)
            words = {word: joined(symbols, pair) for word, symbols in words.items()}
        self.tokens = [END, TURN, TURN_END, *NAMES.values()]
        for left, right in self.merges:
            if left + right not in self.tokens:
                self.tokens.append(left + right)
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.ranks = {pair: i for i, pair in enumerate(self.merges)}
        self.known = {}

    def encode(self, text):
        out = []
        for piece in pieces(text):
            if piece not in self.known:
                symbols = list(piece)
                while len(symbols) > 1:
                    pair = min(zip(symbols, symbols[1:]),
                               key=lambda p: self.ranks.get(p, len(self.ranks)))
                    if pair not in self.ranks:
                        break
                    symbols = joined(symbols, pair)
                self.known[piece] = [self.ids[symbol] for symbol in symbols]
            out += self.known[piece]
        return out

    def turn(self, role, text):
        return [1, *self.encode(f"{role}\n{text}"), 2, *self.encode("\n")]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.norm_attention = nn.Parameter(torch.ones(WIDTH))
        self.norm_inner = nn.Parameter(torch.ones(WIDTH))


def normed(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weight


class Model(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(WIDTH))
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.04)
        frequency = 1.0 / BASE ** (torch.arange(0, HEAD, 2).float() / HEAD)
        angle = torch.outer(torch.arange(CONTEXT).float(), frequency)
        self.cos, self.sin = angle.cos(), angle.sin()

    def rotated(self, x):
        length = x.shape[2]
        even, odd = x[..., 0::2], x[..., 1::2]
        cos, sin = self.cos[:length], self.sin[:length]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def forward(self, ids):
        rows, length = ids.shape
        x = self.embed(ids)
        mask = torch.full((length, length), -1e9).triu(1)
        for layer in self.layers:
            h = normed(x, layer.norm_attention)
            q, k, v = (part(h).view(rows, length, HEADS, HEAD).transpose(1, 2)
                       for part in (layer.q, layer.k, layer.v))
            scores = self.rotated(q) @ self.rotated(k).transpose(-1, -2) / math.sqrt(HEAD) + mask
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, WIDTH)
            x = x + layer.o(mixed)
            h = normed(x, layer.norm_inner)
            x = x + layer.down(F.silu(layer.gate(h)) * layer.up(h))
        return normed(x, self.norm) @ self.embed.weight.t()


def text_field(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def write_gguf(path, model, vocabulary):
    fields = []

    def add(name, kind, value):
        fields.append(text_field(name) + struct.pack("<I", kind) + value)

    def text(name, value):
        add(name, 8, text_field(value))

    def whole(name, value):
        add(name, 4, struct.pack("<I", value))

    text("general.architecture", "llama")
    text("general.name", "attune-test")
    whole("general.file_type", 1)  # mostly F16
    whole("llama.context_length", CONTEXT)
    whole("llama.embedding_length", WIDTH)
    whole("llama.block_count", LAYERS)
    whole("llama.feed_forward_length", INNER)
    whole("llama.attention.head_count", HEADS)
    whole("llama.attention.head_count_kv", HEADS)
    add("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", EPSILON))
    whole("llama.rope.dimension_count", HEAD)
    add("llama.rope.freq_base", 6, struct.pack("<f", BASE))
    whole("llama.vocab_size", len(vocabulary.tokens))
    text("tokenizer.ggml.model", "gpt2")
    text("tokenizer.ggml.pre", "gpt-2")
    tokens = vocabulary.tokens
    add("tokenizer.ggml.tokens", 9,
        struct.pack("<IQ", 8, len(tokens)) + b"".join(text_field(t) for t in tokens))
    kinds = [3 if i < 3 else 1 for i in range(len(tokens))]  # control, normal
    add("tokenizer.ggml.token_type", 9,
        struct.pack("<IQ", 5, len(kinds)) + struct.pack(f"<{len(kinds)}i", *kinds))
    add("tokenizer.ggml.merges", 9,
        struct.pack("<IQ", 8, len(vocabulary.merges))
        + b"".join(text_field(f"{left} {right}") for left, right in vocabulary.merges))
    whole("tokenizer.ggml.bos_token_id", 0)
    whole("tokenizer.ggml.eos_token_id", 2)
    add("tokenizer.ggml.add_bos_token", 7, b"\0")

    tensors = [("token_embd.weight", model.embed.weight), ("output_norm.weight", model.norm)]
    for i, layer in enumerate(model.layers):
        tensors += [(f"blk.{i}.{name}.weight", weight) for name, weight in (
            ("attn_norm", layer.norm_attention), ("attn_q", layer.q.weight),
            ("attn_k", layer.k.weight), ("attn_v", layer.v.weight),
            ("attn_output", layer.o.weight), ("ffn_norm", layer.norm_inner),
            ("ffn_gate", layer.gate.weight), ("ffn_up", layer.up.weight),
            ("ffn_down", layer.down.weight))]
    table, data = b"", b""
    for name, weight in tensors:
        half = weight.dim() > 1  # norms stay F32
        array = weight.detach().numpy().astype("<f2" if half else "<f4")
        table += text_field(name) + struct.pack("<I", array.ndim)
        table += b"".join(struct.pack("<Q", size) for size in reversed(array.shape))
        table += struct.pack("<IQ", 1 if half else 0, len(data))
        data += array.tobytes()
        data += b"\0" * (-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)) + b"".join(fields) + table
    head += b"\0" * (-len(head) % 32)
    with open(path, "wb") as file:
        file.write(head + data)
    print(f"{path}: {len(head) + len(data)} bytes", flush=True)


def batch(vocabulary, drawn, prefix, size):
    rows = []
    for _ in range(size):
        user, reply = prompts.example(drawn)
        asked = prefix + vocabulary.turn("user", user) + [1, *vocabulary.encode("assistant\n")]
        rows.append((asked, vocabulary.encode(reply) + [2]))
    length = max(len(asked) + len(reply) for asked, reply in rows)
    x = torch.full((size, length), 2)
    y = torch.full((size, length), -100)
    for i, (asked, reply) in enumerate(rows):
        whole = torch.tensor(asked + reply)
        x[i, : len(whole)] = whole
        y[i, len(asked) - 1 : len(whole) - 1] = whole[len(asked):]  # the answer alone is learned
    return x, y


def train(model, vocabulary, prefix, seconds):
    drawn = random.Random(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    begun, step, spent = time.process_time(), 0, 0.0
    while spent < seconds:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 30) * max(0.05, 1 - spent / seconds)
        x, y = batch(vocabulary, drawn, prefix, 12)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        spent = time.process_time() - begun
        if step % 25 == 0:
            print(f"step {step}, {spent:.0f} s, {x.shape[1]} tokens, loss {loss.item():.4f}",
                  flush=True)


def right(model, vocabulary, prefix, count=40):
    """Answers that are the teacher's byte for byte, on states that were not seen."""
    drawn, good = random.Random(3), 0
    with torch.no_grad():
        for _ in range(count):
            x, y = batch(vocabulary, drawn, prefix, 1)
            wanted = y[0][y[0] != -100]
            # Each next token given the teacher's ones before it; all right means the same answer.
            said = model(x)[0][y[0] != -100].argmax(-1)
            good += bool((said == wanted).all())
    return good, count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=300, help="of CPU time")
    parser.add_argument("--random", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    np.random.seed(1)
    drawn = random.Random(1)
    texts = [f"system\n{prompts.SYSTEM}"] * 50
    for _ in range(100 if options.random else 1500):
        user, reply = prompts.example(drawn)
        texts += [f"user\n{user}", f"assistant\n{reply}"]
    vocabulary = Vocabulary(texts)
    model = Model(len(vocabulary.tokens))
    print(f"{sum(p.numel() for p in model.parameters())} weights, "
          f"{len(vocabulary.tokens)} tokens", flush=True)
    prefix = vocabulary.turn("system", prompts.SYSTEM)
    if not options.random:
        train(model, vocabulary, prefix, options.seconds)
        good, count = right(model, vocabulary, prefix)
        print(f"{good} of {count} answers right", flush=True)
    write_gguf(options.out, model, vocabulary)


if __name__ == "__main__":
    main()
