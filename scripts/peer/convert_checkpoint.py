"""convert_checkpoint.py CHECKPOINT OUT.gguf TYPE [--draft]: a second converter, written with gguf-py.

Shares no code with ds4-quantize: it reads the safetensors with numpy and encodes with gguf-py. TYPE is f32
(every value exactly, as F32) or q8_0 (the types of ds4-quantize's recipe of that name). --draft adds the draft
block under our names, mtp.0.*; llama.cpp refuses a file that has it.
"""

import argparse
import json
import mmap
import pathlib
import struct

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

# What a tensor is for, which decides its type in a q8_0 file.
VECTOR, MATRIX, SMALL, IDS = "vector", "matrix", "small", "ids"

HC = [(f"hc_{part}_{x}", f"hc_{part}_{x}.weight", SMALL if x == "fn" else VECTOR)
      for part in ("attn", "ffn") for x in ("fn", "base", "scale")]
ATTENTION = [
    ("attn_norm.weight", "attn_norm.weight", VECTOR),
    ("attn.wq_a.weight", "attn_q_a.weight", MATRIX),
    ("attn.q_norm.weight", "attn_q_a_norm.weight", VECTOR),
    ("attn.wq_b.weight", "attn_q_b.weight", MATRIX),
    ("attn.wkv.weight", "attn_kv.weight", MATRIX),
    ("attn.kv_norm.weight", "attn_kv_a_norm.weight", VECTOR),
    ("attn.attn_sink", "attn_sinks.weight", VECTOR),
    ("attn.wo_a.weight", "attn_output_a.weight", MATRIX),
    ("attn.wo_b.weight", "attn_output_b.weight", MATRIX),
]
COMPRESSOR = [
    ("attn.compressor.wkv.weight", "attn_compressor_kv.weight", SMALL),
    ("attn.compressor.wgate.weight", "attn_compressor_gate.weight", SMALL),
    ("attn.compressor.ape", "attn_compressor_ape.weight", SMALL),
    ("attn.compressor.norm.weight", "attn_compressor_norm.weight", VECTOR),
]
INDEXER = [
    ("attn.indexer.wq_b.weight", "indexer.attn_q_b.weight", SMALL),
    ("attn.indexer.weights_proj.weight", "indexer.proj.weight", SMALL),
    ("attn.indexer.compressor.wkv.weight", "indexer_compressor_kv.weight", SMALL),
    ("attn.indexer.compressor.wgate.weight", "indexer_compressor_gate.weight", SMALL),
    ("attn.indexer.compressor.ape", "indexer_compressor_ape.weight", SMALL),
    ("attn.indexer.compressor.norm.weight", "indexer_compressor_norm.weight", VECTOR),
]
FFN = [
    ("ffn_norm.weight", "ffn_norm.weight", VECTOR),
    ("ffn.gate.weight", "ffn_gate_inp.weight", SMALL),
    ("ffn.shared_experts.w1.weight", "ffn_gate_shexp.weight", MATRIX),
    ("ffn.shared_experts.w2.weight", "ffn_down_shexp.weight", MATRIX),
    ("ffn.shared_experts.w3.weight", "ffn_up_shexp.weight", MATRIX),
]
EXPERTS = [("w1", "ffn_gate_exps.weight"), ("w2", "ffn_down_exps.weight"), ("w3", "ffn_up_exps.weight")]
DRAFT = [
    ("e_proj.weight", "e_proj.weight", MATRIX), ("h_proj.weight", "h_proj.weight", MATRIX),
    ("enorm.weight", "enorm.weight", VECTOR), ("hnorm.weight", "hnorm.weight", VECTOR),
    ("norm.weight", "norm.weight", VECTOR), ("hc_head_fn", "hc_head_fn.weight", SMALL),
    ("hc_head_base", "hc_head_base.weight", VECTOR), ("hc_head_scale", "hc_head_scale.weight", VECTOR),
]
TOP = [
    ("embed.weight", "token_embd.weight", SMALL), ("norm.weight", "output_norm.weight", VECTOR),
    ("head.weight", "output.weight", MATRIX), ("hc_head_fn", "output_hc_fn.weight", SMALL),
    ("hc_head_base", "output_hc_base.weight", VECTOR), ("hc_head_scale", "output_hc_scale.weight", VECTOR),
]


def e4m3_values():
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    magnitude = np.where(exponent == 0, np.ldexp(mantissa / 8.0, -6),
                         np.ldexp(1 + mantissa / 8.0, exponent - 7))
    return np.where(codes & 128, -magnitude, magnitude).astype(np.float32)


E4M3 = e4m3_values()
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


class Checkpoint:
    """Tensors of a sharded safetensors folder, as f32 (or i32 for ids), with FP4 and FP8 scales applied."""

    def __init__(self, folder):
        self.entries = {}
        for path in sorted(folder.glob("model*.safetensors")):
            with open(path, "rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            (length,) = struct.unpack("<Q", data[:8])
            for name, entry in json.loads(bytes(data[8:8 + length])).items():
                if name != "__metadata__":
                    begin, end = (8 + length + x for x in entry["data_offsets"])
                    self.entries[name] = (entry["dtype"], entry["shape"], data[begin:end])

    def raw(self, name, dtype):
        kind, shape, data = self.entries[name]
        return kind, np.frombuffer(data, dtype).reshape(shape)

    def scales(self, name):
        kind, codes = self.raw(name.removesuffix("weight") + "scale", np.uint8)
        assert kind == "F8_E8M0" and codes.max() < 255, name
        return np.ldexp(np.float32(1), codes.astype(np.int32) - 127)

    def __getitem__(self, name):
        kind = self.entries[name][0]
        if kind == "F32":
            return self.raw(name, np.float32)[1]
        if kind == "BF16":
            return (self.raw(name, np.uint16)[1].astype(np.uint32) << 16).view(np.float32)
        if kind == "I64":
            return self.raw(name, np.int64)[1].astype(np.int32)
        codes = self.raw(name, np.uint8)[1]
        if kind == "F8_E4M3":  # one scale a tile of 128 x 128
            return E4M3[codes] * self.scales(name).repeat(128, 0).repeat(128, 1)
        assert kind == "I8", f"{name}: {kind}"  # two FP4 codes a byte, the even column low; a scale per 32
        values = E2M1[np.stack([codes & 15, codes >> 4], -1).reshape(codes.shape[0], -1)]
        return values * self.scales(name).repeat(32, 1)


class Converter:
    def __init__(self, folder, out, kind, draft):
        self.config = json.loads((folder / "config.json").read_text())
        self.vocabulary = json.loads((folder / "tokenizer.json").read_text())
        self.checkpoint = Checkpoint(folder)
        self.is_f32 = kind == "f32"
        self.draft = draft
        self.writer = GGUFWriter(out, "deepseek4")

    def shape_keys(self):
        c, w, arch = self.config, self.writer, "deepseek4."
        integers = {
            "block_count": c["num_hidden_layers"], "context_length": c["max_position_embeddings"],
            "embedding_length": c["hidden_size"], "vocab_size": c["vocab_size"],
            "attention.head_count": c["num_attention_heads"],
            "attention.head_count_kv": c["num_key_value_heads"],
            "attention.key_length": c["head_dim"], "attention.value_length": c["head_dim"],
            "rope.dimension_count": c["qk_rope_head_dim"], "attention.q_lora_rank": c["q_lora_rank"],
            "attention.output_lora_rank": c["o_lora_rank"], "attention.output_group_count": c["o_groups"],
            "attention.sliding_window": c["sliding_window"],
            "attention.indexer.head_count": c["index_n_heads"],
            "attention.indexer.key_length": c["index_head_dim"],
            "attention.indexer.top_k": c["index_topk"], "expert_count": c["n_routed_experts"],
            "expert_used_count": c["num_experts_per_tok"], "expert_shared_count": c["n_shared_experts"],
            "expert_feed_forward_length": c["moe_intermediate_size"], "expert_gating_func": 4,
            "hash_layer_count": c["num_hash_layers"], "hyper_connection.count": c["hc_mult"],
            "hyper_connection.sinkhorn_iterations": c["hc_sinkhorn_iters"],
            "rope.scaling.original_context_length": c["rope_scaling"]["original_max_position_embeddings"],
        }
        floats = {
            "attention.layer_norm_rms_epsilon": c["rms_norm_eps"],
            "attention.compress_rope_freq_base": c["compress_rope_theta"],
            "expert_weights_scale": c["routed_scaling_factor"], "hyper_connection.epsilon": c["hc_eps"],
            "rope.freq_base": c["rope_theta"], "rope.scaling.factor": c["rope_scaling"]["factor"],
            "rope.scaling.yarn_beta_fast": c["rope_scaling"]["beta_fast"],
            "rope.scaling.yarn_beta_slow": c["rope_scaling"]["beta_slow"],
        }
        n_layers = c["num_hidden_layers"]
        w.add_name("DeepSeek V4 Nano, second conversion")
        for key, value in integers.items():
            w.add_uint32(arch + key, value)
        for key, value in floats.items():
            w.add_float32(arch + key, float(value))
        w.add_bool(arch + "expert_weights_norm", c["norm_topk_prob"])
        w.add_string(arch + "rope.scaling.type", c["rope_scaling"]["type"])
        w.add_array(arch + "attention.compress_ratios", c["compress_ratios"])
        for key in ("swiglu_clamp_exp", "swiglu_clamp_shexp"):
            w.add_array(arch + key, [float(c["swiglu_limit"])] * n_layers)

    def vocabulary_keys(self):
        normal, control = 1, 3
        pieces = {i: (text, normal) for text, i in self.vocabulary["model"]["vocab"].items()}
        pieces.update({a["id"]: (a["content"], control) for a in self.vocabulary["added_tokens"]})
        merges = [m if isinstance(m, str) else " ".join(m) for m in self.vocabulary["model"]["merges"]]
        w = self.writer
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("joyai-llm")
        w.add_token_list([pieces[i][0] for i in range(len(pieces))])
        w.add_token_types([pieces[i][1] for i in range(len(pieces))])
        w.add_token_merges(merges)
        w.add_bos_token_id(self.config["bos_token_id"])
        w.add_eos_token_id(self.config["eos_token_id"])
        w.add_add_bos_token(False)

    def put(self, name, values, family):
        if family == SMALL and name.startswith("mtp.0.") and not self.is_f32:
            family = VECTOR  # the draft block keeps its mixes and router in F32
        if family == MATRIX and not self.is_f32:
            kind = GGMLQuantizationType.Q8_0
            self.writer.add_tensor(name, quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)
        elif family == SMALL and not self.is_f32:
            self.writer.add_tensor(name, values.astype(np.float16))
        else:
            self.writer.add_tensor(name, np.ascontiguousarray(values))

    def put_all(self, source, target, table):
        for hf_name, name, family in table:
            self.put(target + name, self.checkpoint[source + hf_name], family)

    def block(self, source, target, ratio, hashed):
        self.put_all(source, target, HC + ATTENTION + FFN)
        if ratio != 0:
            self.put_all(source, target, COMPRESSOR)
        if ratio == 4:
            self.put_all(source, target, INDEXER)
        if hashed:
            self.put_all(source, target, [("ffn.gate.tid2eid", "ffn_gate_tid2eid.weight", IDS)])
        else:
            self.put_all(source, target, [("ffn.gate.bias", "exp_probs_b.bias", VECTOR)])
        for part, name in EXPERTS:
            experts = [self.checkpoint[f"{source}ffn.experts.{e}.{part}.weight"]
                       for e in range(self.config["n_routed_experts"])]
            self.put(target + name, np.stack(experts), MATRIX)

    def run(self):
        self.shape_keys()
        self.vocabulary_keys()
        self.put_all("", "", TOP)
        for i in range(self.config["num_hidden_layers"]):
            self.block(f"layers.{i}.", f"blk.{i}.", self.config["compress_ratios"][i],
                       hashed=i < self.config["num_hash_layers"])
        if self.draft:
            self.block("mtp.0.", "mtp.0.", ratio=0, hashed=False)
            self.put_all("mtp.0.", "mtp.0.", DRAFT)
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("out")
    parser.add_argument("type", choices=["f32", "q8_0"])
    parser.add_argument("--draft", action="store_true")
    options = parser.parse_args()
    Converter(options.checkpoint, options.out, options.type, options.draft).run()


main()
