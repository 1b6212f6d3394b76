"""A random BERT encoder with its own tokenizer, made in memory and saved in a folder."""

from pathlib import Path

import torch

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "ri",
    "##ver",
    "bank",
    "cat",
    "mark",
    "##et",
    "king",
]
PIECES += ["tree", "see", "##s", "like", "find", "sell", "a", "and", "."]


def save_tokenizer(folder: Path, transformers) -> None:
    from tokenizers import BertWordPieceTokenizer

    numbered = {piece: number for number, piece in enumerate(PIECES)}
    BertWordPieceTokenizer(numbered).save(str(folder / "tokenizer.json"))
    transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    ).save_pretrained(folder)  # fmt: skip


def save_encoder(folder: Path, transformers) -> Path:
    """Write a random BERT of 12 values a piece, whose attention is strong enough for words to matter to others."""
    folder.mkdir()
    save_tokenizer(folder, transformers)
    torch.manual_seed(5)
    config = transformers.BertConfig(
        vocab_size=len(PIECES), hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=40, initializer_range=0.4,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def save_decoder(folder: Path, transformers) -> Path:
    """Write a random GPT-2, which reads from left to right."""
    folder.mkdir()
    save_tokenizer(folder, transformers)
    config = transformers.GPT2Config(
        vocab_size=len(PIECES), n_embd=8, n_layer=1, n_head=2, n_positions=40, bos_token_id=2, eos_token_id=3
    )
    transformers.GPT2Model(config).save_pretrained(folder)
    return folder


def save_roberta(folder: Path, transformers) -> Path:
    """Write a random RoBERTa, whose pieces are bytes and whose words begin with a space."""
    from tokenizers import ByteLevelBPETokenizer

    folder.mkdir()
    tokenizer = ByteLevelBPETokenizer()
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(["the market sees rivers"], vocab_size=270, special_tokens=marks)
    tokenizer.save_model(str(folder))
    transformers.RobertaTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    config = transformers.RobertaConfig(
        vocab_size=270, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=30, initializer_range=0.4,
    )  # fmt: skip
    transformers.RobertaModel(config).save_pretrained(folder)
    return folder
