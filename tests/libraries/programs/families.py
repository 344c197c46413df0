"""transformers: one family each, trained for three steps."""

from __future__ import annotations

from typing import Any

import torch

from tests.libraries.table import Built, program, training

SMALL = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def words(batch: int = 2, length: int = 12) -> torch.Tensor:
    return torch.randint(3, 97, (batch, length))


def spoken(model: Any, **inputs: Any) -> Built:
    """The model's own loss."""
    return training(model.train(), lambda: model(**inputs).loss)


@program("transformers")
def bert() -> Built:
    from transformers import BertConfig, BertForMaskedLM

    ids = words()
    mask = torch.ones_like(ids)
    mask[0, 8:] = 0
    return spoken(BertForMaskedLM(BertConfig(**SMALL)), input_ids=ids, attention_mask=mask, labels=ids)


@program("transformers")
def gpt2() -> Built:
    from transformers import GPT2Config, GPT2LMHeadModel

    ids = words()
    config = GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=32)
    return spoken(GPT2LMHeadModel(config), input_ids=ids, labels=ids)


@program("transformers")
def llama() -> Built:
    from transformers import LlamaConfig, LlamaForCausalLM

    ids = words()
    return spoken(LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2)), input_ids=ids, labels=ids)


@program("transformers")
def llama_checkpointed() -> Built:
    from transformers import LlamaConfig, LlamaForCausalLM

    ids = words()
    model = LlamaForCausalLM(LlamaConfig(**SMALL, attn_implementation="eager"))
    model.gradient_checkpointing_enable()
    return spoken(model, input_ids=ids, labels=ids)


@program("transformers")
def mixtral() -> Built:
    from transformers import MixtralConfig, MixtralForCausalLM

    ids = words()
    config = MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4, output_router_logits=True)
    return spoken(MixtralForCausalLM(config), input_ids=ids, labels=ids)


@program("transformers")
def gemma() -> Built:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    ids = words()
    config = Gemma2Config(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=8)
    return spoken(Gemma2ForCausalLM(config), input_ids=ids, labels=ids)


@program("transformers")
def mamba() -> Built:
    from transformers import MambaConfig, MambaForCausalLM

    ids = words()
    config = MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, state_size=4)
    return spoken(MambaForCausalLM(config), input_ids=ids, labels=ids)


@program("transformers")
def t5() -> Built:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=97, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    return spoken(T5ForConditionalGeneration(config), input_ids=words(), labels=words(2, 7))


@program("transformers")
def bart() -> Built:
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        **{"vocab_size": 97, "d_model": 32, "max_position_embeddings": 32},
        **{f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in HEADS.items()},
    )
    return spoken(BartForConditionalGeneration(config), input_ids=words(), labels=words(2, 7))


HEADS = {"layers": 2, "attention_heads": 4, "ffn_dim": 64}


@program("transformers")
def deberta() -> Built:
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    config = DebertaV2Config(**SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8)
    return spoken(DebertaV2ForSequenceClassification(config), input_ids=words(), labels=torch.tensor([0, 1]))


@program("transformers")
def vit() -> Built:
    from transformers import ViTConfig, ViTForImageClassification

    shape = {key: value for key, value in SMALL.items() if key != "vocab_size"}
    model = ViTForImageClassification(ViTConfig(**shape, image_size=32, patch_size=8))
    return spoken(model, pixel_values=torch.randn(2, 3, 32, 32), labels=torch.tensor([0, 1]))


@program("transformers")
def clip() -> Built:
    from transformers import CLIPConfig, CLIPModel

    shape = {key: value for key, value in SMALL.items() if key != "vocab_size"}
    model = CLIPModel(
        CLIPConfig(
            text_config={**SMALL, "max_position_embeddings": 16, "eos_token_id": 96},
            vision_config={**shape, "image_size": 32, "patch_size": 8},
            projection_dim=16,
        )
    )
    return spoken(model, input_ids=words(), pixel_values=torch.randn(2, 3, 32, 32), return_loss=True)


@program("transformers")
def whisper() -> Built:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        **{"vocab_size": 97, "d_model": 32, "num_mel_bins": 8, "max_source_positions": 20},
        **{"max_target_positions": 16, "decoder_start_token_id": 1, "pad_token_id": 0, "bos_token_id": 1},
        **{"eos_token_id": 2, "suppress_tokens": None, "begin_suppress_tokens": None},
        **{f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in HEADS.items()},
    )
    model = WhisperForConditionalGeneration(config)
    return spoken(model, input_features=torch.randn(2, 8, 40), labels=words(2, 6))


@program("transformers")
def wav2vec2() -> Built:
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        **{**SMALL, "vocab_size": 20},
        **{"conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_feat_extract_layers": 2},
        **{"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "mask_time_length": 2},
        **{"ctc_loss_reduction": "mean", "ctc_zero_infinity": True},
    )
    return spoken(Wav2Vec2ForCTC(config), input_values=torch.randn(2, 1600), labels=torch.randint(1, 20, (2, 6)))


@program("transformers")
def generated() -> Built:
    """Tokens drawn one by one, with the cache of keys and values."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SMALL, eos_token_id=96, pad_token_id=0)).eval()
    ids = words(2, 5)
    return model, lambda: model.generate(ids, attention_mask=ids > 0, max_new_tokens=8, do_sample=True)
