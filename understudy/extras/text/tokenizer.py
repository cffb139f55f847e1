"""The tokenizer of the small decoder: byte-pair encoding over bytes, learned on texts, or bytes alone.

Source: Sennrich, Haddow, Birch 2016 (1508.07909); over bytes, Radford et al. 2019.
"""

from collections.abc import Iterable
from typing import Self

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END, N_SPECIAL = 0, 1  # the end of a text; its vocabulary follows


class BytePairs:
    """A tokenizer of texts. Every text has tokens, since every byte is one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def learned(cls, texts: Iterable[str], size: int) -> Self:
        """A tokenizer with at most so many tokens.
        `texts`: public ones, or *Sensitive* ones of a fit without epsilon. Without any, tokens are bytes.

        >>> bytes_alone = BytePairs.learned([], 1_000)
        >>> bytes_alone.size, bytes_alone.text(bytes_alone.tokens("né"))
        (257, 'né')
        """
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=2
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @property
    def size(self) -> int:
        """Number of tokens, the special ones among them."""
        return N_SPECIAL + int(self._tokenizer.get_vocab_size())

    def tokens(self, text: str) -> list[int]:
        return [N_SPECIAL + token for token in self._tokenizer.encode(text).ids]

    def text(self, tokens: Iterable[int]) -> str:
        """The text of tokens, none of which is special; bytes that are no text are left out."""
        return str(self._tokenizer.decode([token - N_SPECIAL for token in tokens])).replace("\ufffd", "")

    def to_text(self) -> str:
        return str(self._tokenizer.to_str())

    @classmethod
    def from_text(cls, text: str) -> Self:
        try:
            return cls(Tokenizer.from_str(text))
        except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
            raise ValueError(f"it is no tokenizer ({type(error).__name__})") from None
