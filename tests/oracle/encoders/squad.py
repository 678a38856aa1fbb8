# SPDX-License-Identifier: Apache-2.0
"""How SQuAD 2.0's evaluate-v2.0.py counts answers, and how run_qa.py of transformers' examples tells them from logits."""
import collections
import re
import string


def normalize_answer(text):
    text = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def compute_exact(gold, told):
    return int(normalize_answer(gold) == normalize_answer(told))


def compute_f1(gold, told):
    gold_tokens, told_tokens = normalize_answer(gold).split(), normalize_answer(told).split()
    common = collections.Counter(gold_tokens) & collections.Counter(told_tokens)
    same = sum(common.values())
    if not gold_tokens or not told_tokens:
        return int(gold_tokens == told_tokens)
    if same == 0:
        return 0
    precision, recall = same / len(told_tokens), same / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


def raw_scores(told, answers):
    gold = [answer for answer in answers if normalize_answer(answer)] or [""]
    return max(compute_exact(one, told) for one in gold), max(compute_f1(one, told) for one in gold)


def told_answer(context, features, longest, may_be_none, most=10**6):
    """postprocess_qa_predictions() of utils_qa.py, without tokens that it counts twice; a feature has logits of starts and
    ends, and by row the characters of the context that its token is made of, None of other rows."""
    null_score, candidates = None, []
    for starts, ends, offsets in features:
        if null_score is None or null_score > starts[0] + ends[0]:
            null_score = starts[0] + ends[0]
        best = lambda logits: sorted(range(len(logits)), key=lambda row: -logits[row])[:most]
        for start in best(starts):
            for end in best(ends):
                if offsets[start] is None or offsets[end] is None:
                    continue
                if end < start or end - start + 1 > longest:
                    continue
                candidates.append((starts[start] + ends[end], (offsets[start][0], offsets[end][1])))
    score, (begin, end) = max(candidates, key=lambda candidate: candidate[0])
    if may_be_none and null_score - score > 0:
        return ""
    return context[begin:end]
