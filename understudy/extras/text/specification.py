"""The specification of a language model for columns of free text: the option `text` of every generator."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

OF_STEPS = frozenset({"sampling_rate", "max_grad_norm", "share"})  # parameters of the steps of DP-SGD
USUAL_RATE = {"decoder": 2e-3, "adapters": 1e-3}  # learning rates of Adam, unless told
LM = "lm"  # the short form of a specification: the usual parameters
STEPS = "steps of DP-SGD on texts"  # their name in a statement


class LanguageModel(BaseModel):
    """A causal language model of texts given their rows: a folder's with LoRA adapters, or a small decoder of our own.

    The decoder is trained from nothing. It is worth as much as the texts it has seen: it repeats their phrases and
    writes little that is new. A folder's model writes better texts from fewer rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    model: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of a causal model as `transformers` saves it; `None`: a small decoder of our own.",
    )
    public_text: str | None = Field(
        default=None,
        min_length=1,
        description="File of public texts, one a line, that the model learns from first, and a decoder's tokenizer.",
    )
    public_epochs: int = Field(default=10, ge=1, le=10_000, description="Passes over the file of public texts.")
    themes: int = Field(
        default=32, ge=0, le=256, description="With epsilon: themes of public texts, by which rows are counted; 0: off."
    )
    vocabulary: int = Field(default=1_000, ge=300, le=50_000, description="Tokens of the small decoder's tokenizer.")
    d_model: int = Field(default=96, ge=16, le=1024, multiple_of=16, description="Width of the small decoder.")
    n_layers: int = Field(default=2, ge=1, le=24, description="Layers of the small decoder.")
    rank: int = Field(default=8, ge=1, le=256, description="Rank of the adapters of a folder's model.")
    epochs: int = Field(default=20, ge=1, le=10_000, description="Without epsilon: passes over the texts.")
    batch_size: int = Field(default=32, ge=1, le=4096, description="Without epsilon: texts of a step.")
    steps: int = Field(
        default=300,
        ge=0,
        le=1_000_000,
        description="With epsilon: steps of DP-SGD; left out: none where public texts have themes, which tell more.",
    )
    sampling_rate: Annotated[float, Field(gt=0, le=1)] | Literal["auto"] = Field(
        default="auto", description="With epsilon: probability of a unit to be in a step's sample, in (0, 1]."
    )
    max_grad_norm: float = Field(
        default=1.0, ge=1e-6, le=1e6, description="With epsilon: L2 norm that a unit's gradient is clipped to."
    )
    share: float = Field(default=0.5, gt=0, lt=1, description="With epsilon: share of the budget for texts, about.")
    learning_rate: float | None = Field(default=None, gt=0, le=1, description="`None`: the usual one.")
    max_tokens: int | None = Field(
        default=None,
        ge=4,
        le=4096,
        description="Tokens of a text that are read or written at most; `None`: without epsilon as many as nearly all "
        "texts have, else as many as `length` and public texts say.",
    )
    max_prompt: int = Field(
        default=160, ge=8, le=4096, description="Tokens of a row before the text, of a folder's model, at most."
    )
    temperature: float = Field(default=1.0, gt=0, le=10, description="Of sampling; below 1, likely words get likelier.")
    top_p: float = Field(default=0.95, gt=0, le=1, description="Share of the likeliest tokens that are drawn from.")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: the GPU where there is one.")

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        """The short form in full; no steps where themes do more for the same budget."""
        content = {} if content == LM else content
        if not isinstance(content, Mapping) or "steps" in content or not OF_STEPS.isdisjoint(content):
            return content
        return {**content, "steps": 0 if content.get("public_text") and content.get("themes", 1) != 0 else 300}

    @model_validator(mode="after")
    def _applies(self) -> Self:
        if self.public_text is None and self.steps == 0:
            raise ValueError("steps=0 learns public texts alone, and there are none; set public_text, or choose steps")
        return self

    @property
    def rate(self) -> float:
        return self.learning_rate or USUAL_RATE["decoder" if self.model is None else "adapters"]


def missing_name(name: str) -> str:
    return f"{name}: missing"
