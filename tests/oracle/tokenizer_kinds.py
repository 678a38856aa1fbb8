# SPDX-License-Identifier: Apache-2.0
"""Small tokenizers of every kind that published models have, trained by the tokenizers package."""
import io

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def charsmap():
    """The table of SentencePiece's nmt_nfkc, as it stands in the models of T5 and XLM-R."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b"]), model_writer=model, vocab_size=6,
                                             model_type="char", minloglevel=2, normalization_rule_name="nmt_nfkc")
    return sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap


def word_piece(texts, normalizer, splits, decoder, **model):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", **model))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splits
    tokenizer.decoder = decoder
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False,
        continuing_subword_prefix=model.get("continuing_subword_prefix", "##")))
    return tokenizer


def bert(texts):
    tokenizer = word_piece(texts, normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece())
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.add_tokens([AddedToken("SKY", normalized=True), AddedToken("[X]", lstrip=True, rstrip=True, special=True)])
    return tokenizer


def cased_bert(texts):
    tokenizer = word_piece(
        texts, normalizers.BertNormalizer(lowercase=False, strip_accents=False, handle_chinese_chars=False),
        pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(), max_input_chars_per_word=6)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_tokens([AddedToken("sky", single_word=True), AddedToken("12", single_word=True, lstrip=True)])
    return tokenizer


def marked_words(texts):
    steps = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip(right=False)]
    splits = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    return word_piece(texts, normalizers.Sequence(steps), splits, decoders.WordPiece("@@", cleanup=False),
                      continuing_subword_prefix="@@")


def character_bpe(texts, special=(), **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=1500, special_tokens=["<unk>", "<s>", "</s>", *special], show_progress=False, limit_alphabet=400,
        **{key: model[key] for key in ("end_of_word_suffix", "continuing_subword_prefix") if key in model}))
    return tokenizer


SPACES = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                            decoders.Strip(" ", 1, 0)])


def llama2(texts):
    """Whole texts are one word, as Llama 2 had it at first."""
    tokenizer = character_bpe(texts, BYTES, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = SPACES
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.add_tokens([AddedToken("▁sky", normalized=False), AddedToken("blue", normalized=True)])
    return tokenizer


def mistral(texts):
    tokenizer = character_bpe(texts, BYTES, unk_token="<unk>", byte_fallback=True, fuse_unk=True, ignore_merges=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = SPACES
    return tokenizer


def gemma(texts):
    tokenizer = character_bpe(texts, BYTES, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def some_bytes(texts):
    """Falls back to the bytes that it has; else characters are unknown, each by itself."""
    return character_bpe(texts, BYTES[:0xE0], unk_token="<unk>", byte_fallback=True)


def ends_of_words(texts):
    """As OpenAI's first GPT and CLIP."""
    tokenizer = character_bpe(texts, unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder()
    return tokenizer


def beginnings_of_words(texts):
    tokenizer = character_bpe(texts, unk_token="<unk>", continuing_subword_prefix="##")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.Punctuation("merged_with_previous"),
        pre_tokenizers.Split(Regex("[aiou]+|(?=1)"), "merged_with_next"), pre_tokenizers.FixedLength(7)])
    return tokenizer


def unigram(texts, normalizer, splits, byte_fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splits
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=3000, special_tokens=["<s>", "<pad>", "</s>", "<unk>", *(BYTES if byte_fallback else [])],
        unk_token="<unk>", show_progress=False))
    return tokenizer


def xlm_roberta(texts):
    steps = [normalizers.Precompiled(charsmap()), normalizers.Replace(Regex(" {2,}"), " ")]
    tokenizer = unigram(texts, normalizers.Sequence(steps), pre_tokenizers.Metaspace())
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return tokenizer


def albert(texts):
    steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
             normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Precompiled(charsmap()),
             normalizers.Strip(left=False), normalizers.Replace(Regex(" {2,}"), "▁")]
    splits = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return unigram(texts, normalizers.Sequence(steps), splits)


def bytes_of_pieces(texts):
    steps = [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(r"\p{Nd}{3}"), "#")]
    tokenizer = unigram(texts, normalizers.Sequence(steps), pre_tokenizers.Metaspace(prepend_scheme="never"), True)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")])
    return with_model(tokenizer, byte_fallback=True)


def scripts(texts):
    splits = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.UnicodeScripts(), pre_tokenizers.Digits(),
        pre_tokenizers.Metaspace(prepend_scheme="first")])
    return unigram(texts, normalizers.NFC(), splits)


def word_level(texts):
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel(
        add_prefix_space=False)])
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=500, special_tokens=["<unk>"],
                                                                   show_progress=False))
    return tokenizer


def roberta(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=1000, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def with_model(tokenizer, **fields):
    """The same tokenizer with other fields of its model, which the trainer does not set."""
    import json
    whole = json.loads(tokenizer.to_str())
    whole["model"].update(fields)
    return Tokenizer.from_str(json.dumps(whole))


KINDS = {each.__name__: each for each in (
    bert, cased_bert, marked_words, llama2, mistral, gemma, some_bytes, ends_of_words, beginnings_of_words, xlm_roberta,
    albert, bytes_of_pieces, scripts, word_level, roberta)}
