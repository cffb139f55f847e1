"""One entry of a job's generators: which one, how many rows, and its parameters, of which epsilon may be a list."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

NONE = "none"
"""How a fit without epsilon is written in a list of epsilons."""
TABLES = ("workload",)
"""Parameters of a generator that are tables of TOML."""


class GeneratorSpec(BaseModel):
    """One candidate. Every further key is a parameter of the generator."""

    model_config = ConfigDict(frozen=True, extra="allow")
    generator: str | None = Field(default=None, description="Name of the generator; none: the label.")
    rows: int | None = Field(
        default=None,
        ge=1,
        description="Rows to sample; none: for a private fit n_units (with entities a noisy count), else as in train.",
    )

    @model_validator(mode="after")
    def _usable_list(self) -> Self:
        if self.sweeps:
            epsilon_list(self.parameters["epsilon"])
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """The generator's own parameters."""
        return dict(self.model_extra or {})

    @property
    def sweeps(self) -> bool:
        """Whether it is to be fitted at each of several epsilons."""
        return isinstance(self.parameters.get("epsilon"), list | tuple)

    @property
    def epsilons(self) -> tuple[float | None, ...]:
        """Every epsilon that it is to be fitted at; none: without a formal guarantee."""
        given = self.parameters.get("epsilon")
        return (None,) if given is None else epsilon_list(given if self.sweeps else [given])

    def at(self, epsilon: float | None) -> Self:
        """The same at one epsilon."""
        others = {key: value for key, value in self.parameters.items() if key != "epsilon"}
        chosen = {} if epsilon is None else {"epsilon": epsilon}
        return type(self)(generator=self.generator, rows=self.rows, **others, **chosen)


def epsilon_list(value: Any) -> tuple[float | None, ...]:
    """The epsilons of a job's list, none for `"none"`.

    Raises:
        ValueError: it holds something else, the same twice, or nothing.

    >>> epsilon_list([0.3, 1, "none"])
    (0.3, 1.0, None)
    """
    if not value:
        raise ValueError("epsilon=[] is a sweep over nothing; list numbers or 'none', or leave epsilon out")
    for one in value:
        if one != NONE and (isinstance(one, bool) or not isinstance(one, int | float)):
            raise ValueError(f"epsilon holds {one!r}, and a sweep takes numbers and 'none'; write [0.3, 1, 'none']")
    found = tuple(None if one == NONE else float(one) for one in value)
    if len({shown(epsilon) for epsilon in found}) < len(found):
        raise ValueError("epsilon holds the same value twice; name each once, and use sweep.seeds to repeat fits")
    return found


def shown(epsilon: float | None) -> str:
    """An epsilon as labels write it.

    >>> shown(0.3), shown(None)
    ('eps0.3', 'none')
    """
    return NONE if epsilon is None else f"eps{epsilon:.12g}"
