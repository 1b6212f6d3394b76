#!/usr/bin/env bash
# Raw text -> the folder of a small Chinese model: corpus of characters, static vectors, training, context layer,
# aliases of Traditional characters, compact storage.
# Run the same command again after any interruption: each step resumes, and finished steps are skipped.
#
#   recipes/zh-small/run.sh WORK VALIDATION TEXT...
#
# WORK        folder for all outputs; the model is WORK/zh-small
# VALIDATION  raw text that is not part of TEXT
# TEXT        files .txt, .jsonl or .parquet, compressed or not, in Simplified Chinese
#
# The last step needs the package opencc (pip install opencc).
# Environment: VOCABULARY_SIZE, VECTOR_DIM, SETTINGS (a TOML file), TRAIN_OPTIONS (more options of elmo train), ELMO
# (the command; with several processes TRAIN="torchrun --nproc-per-node 2 -m elmo train"), PYTHON (the interpreter that
# has elmo and opencc).
here=$(dirname "$0")
source "$here/../steps.sh"
vocabulary_size=${VOCABULARY_SIZE:-12000}

echo "== corpus: $work/corpus"
$elmo prepare "${texts[@]}" --output "$work/corpus" --characters Han --language zh --vocabulary-size "$vocabulary_size"
make_static_vectors --words "$vocabulary_size" --window 8
train_model

echo "== context layer and compact storage: $work/zh-small"
if [ ! -e "$work/zh-small/config.json" ] || [ "$work/run/checkpoints" -nt "$work/zh-small" ]; then
  rm -rf "$work/zh-small"
  # As for the included model; elmo fuse has no option for the decay with distance, which characters do not need.
  ${PYTHON:-python} - "$work" "$vocabulary_size" << 'END'
import sys

import elmo

work, num_words = sys.argv[1], int(sys.argv[2])
fused = elmo.fuse(
    elmo.Elmo.from_pretrained(f"{work}/run"), f"{work}/corpus", vectors=f"{work}/vectors.txt", num_words=num_words,
    window=24, focus=3, decay=0, share=1, frequency=3e-4,
)
fused.save_pretrained(f"{work}/zh-small", storage="compact")
END
fi

echo "== sentence head"
if [ ! -e "$work/zh-small/sentence.safetensors" ]; then
  ${PYTHON:-python} "$here/sentence_head.py" "$work/zh-small" "$work/corpus" "$work/zh-small"
fi

echo "== Traditional characters: $work/zh-small/aliases.txt"
${PYTHON:-python} "$here/aliases.py" "$work/zh-small"

echo "== perplexity on $validation"
$elmo evaluate "$validation" --model "$work/zh-small" --split sentences
