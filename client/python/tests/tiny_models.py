"""Small randomly initialised models with a tokenizer, saved as Hugging Face folders."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

WORDS = [f"w{i}" for i in range(60)]
SPECIAL = ["<unk>", "<s>", "</s>"]
VOCABULARY = 320  # the 256 bytes, the special tokens and merges

_SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
}
_GQA = _SMALL | {"num_key_value_heads": 2}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def llama(**changes: Any) -> PretrainedConfig:
    """A Llama with grouped queries; `changes` override its configuration."""
    return LlamaConfig(**(_GQA | changes))


CONFIGURATIONS: dict[str, PretrainedConfig] = {
    "llama": llama(attention_bias=True),
    "llama_rope_scaling": llama(rope_parameters=LLAMA3_ROPE),
    "qwen2": Qwen2Config(**_GQA),
    "qwen3": Qwen3Config(**_GQA, head_dim=20),
    "mistral": MistralConfig(**_GQA, sliding_window=32),
    "gpt_neox": GPTNeoXConfig(**_SMALL | {"rotary_pct": 0.5, "rotary_emb_base": 500}),
    "gpt2": GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=128,
        n_embd=48,
        n_layer=3,
        n_head=4,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.3,
        scale_attn_by_inverse_layer_idx=True,
    ),
}


def save_model(folder: Path, config: PretrainedConfig, seed: int = 0) -> Path:
    """Saves a model whose biases and norms are random too, and its tokenizer."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.5)
            elif parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def tokenizer(bos: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level BPE, trained on the words."""
    model = Tokenizer(BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator([" ".join(WORDS)], trainer)
    special = {"unk_token": "<unk>", "eos_token": "</s>"} | ({"bos_token": "<s>"} if bos else {})
    return PreTrainedTokenizerFast(tokenizer_object=model, **special)


def write_text(path: Path, words: int, seed: int = 0) -> Path:
    """Random words; every 50th is a special token, as a text about markup might have it."""
    pick = random.Random(seed)
    text = [("</s>" if i % 50 == 49 else pick.choice(WORDS)) for i in range(words)]
    path.write_text(" ".join(text) + "\n")
    return path
