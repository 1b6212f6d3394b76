"""What the columns of public data sets are called, in lower case."""

LABELS = (
    "label", "labels", "gold_label", "class", "category", "target", "sentiment", "topic", "intent", "emotion",
    "polarity", "stars", "rating", "entailment_judgment", "judgment", "relation", "is_duplicate", "y", "answer",
    "score", "gold", "tag", "type", "similarity", "relatedness_score",
)  # fmt: skip
SCORES = ("score", "similarity", "similarity_score", "relatedness_score", "relatedness", "label", "gold", "target")
TEXTS = (
    "text", "sentence", "review", "content", "body", "document", "utterance", "comment", "tweet", "message",
    "query", "question", "description", "headline", "title", "words", "tokens",
)  # fmt: skip
PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_a", "sentence_b"),
    ("sentencea", "sentenceb"), ("text_a", "text_b"), ("text1", "text2"), ("question1", "question2"),
    ("first", "second"), ("s1", "s2"), ("a", "b"), ("text", "hypothesis"), ("question", "sentence"),
    ("query", "document"), ("left", "right"),
)  # fmt: skip
WORDS = ("words", "tokens", "token", "word", "form", "text", "sentence")
SENTENCES = (
    "sentence #",
    "sentence_id",
    "sent_id",
    "sentence_no",
    "sentence_num",
    "sentence_number",
    "sentence_idx",
)
TAGS = ("tags", "labels", "ner_tags", "pos_tags", "upos", "ner", "pos", "tag", "label", "chunk_tags")
QUESTIONS = ("question", "query")
PASSAGES = ("context", "passage", "paragraph", "document", "text")
ANSWERS = ("answers", "answer", "answer_text", "span")
STARTS = ("answer_start", "start")
# A column of a name with such a word in it holds something about a text or label, as text_id does.
NEVER_MEANT = frozenset(
    ("id", "ids", "idx", "index", "no", "num", "number", "count", "length", "len", "date", "time", "url", "source")
)
USUAL_NAMES = frozenset(
    (
        *LABELS, *SCORES, *TEXTS, *WORDS, *SENTENCES, *TAGS, *QUESTIONS, *PASSAGES, *ANSWERS, *STARTS,
        "id", "idx", "pair_id",
    )
).union(*PAIRS)  # fmt: skip
