"""中文示例：同一个词在不同的句子里意思不同，找出意思最接近的句子。

python examples/chinese.py [MODEL]
"""

import sys

import numpy as np

from elmo import Elmo, analysis

# 每行：词义，以及用方括号标出该词的句子。
SENTENCES = {
    "苹果": """
        公司  [苹果]公司发布了新手机
        公司  他买了一部新的[苹果]手机
        公司  [苹果]的股价昨天上涨了
        水果  我每天吃一个[苹果]
        水果  树上的[苹果]熟了
        水果  她把[苹果]削了皮""",
    "病毒": """
        生物  流感[病毒]在冬天传播得很快
        生物  医生说这种[病毒]会引起发烧
        生物  科学家研究了[病毒]的结构
        电脑  我的电脑中了[病毒]
        电脑  这个软件可以查杀[病毒]
        电脑  黑客用[病毒]攻击了网站""",
}


def main() -> None:
    model = Elmo.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "zh-small")
    for word, lines in SENTENCES.items():
        senses, sentences = zip(*(line.split(maxsplit=1) for line in lines.strip().splitlines()), strict=True)
        cosines = analysis.compare_words(model, sentences, layers="meaning" if model.context else "top").cosines
        np.fill_diagonal(cosines, -1)  # 不与自己比较
        nearest = cosines.argmax(axis=1)
        num_right = sum(senses[number] == senses[other] for number, other in enumerate(nearest))
        print(f"\n{word}：最接近的句子词义相同，{num_right} / {len(senses)}")
        for number, other in enumerate(nearest):
            print(f"  {cosines[number, other]:.2f}  {sentences[number]}  ~  {sentences[other]}（{senses[other]}）")


if __name__ == "__main__":
    main()
